// The part of a page that a server keeps current (`rlcr view`): it asks whether anything is new, puts new tables
// and figures in the place of old ones, and fetches the answers page by page. What comes is text for the cards,
// or a page that the same server made; nothing in it is run.
const LOOK_EVERY = 700;  // milliseconds

const fetched = async (address) => {
  const reply = await fetch(address, { cache: "no-store", credentials: "omit" });
  if (!reply.ok) throw new Error((await reply.text()).trim() || `status ${reply.status}`);
  return reply;
};

// A store like that of store.js, of which only the page that is shown is here. Finding gives what is there, and
// asks for the rest: `changed` is called when it has come.
const liveStore = ({ runs, colours, page, total: measured }) => {
  const problems = [], samples = [];
  let total = 0, note = "", asked = "", shown = [], turn = 0;
  const store = {
    runs, colours, problems, madeAs: page, measured, isRemote: true, isLoading: true,
    changed: () => {}, failed: () => {}, renewed: () => {},
  };

  const load = async (query) => {
    const own = ++turn;
    let reply;
    try { reply = await (await fetched(`answers?${query}`)).json(); } catch (error) {
      if (own === turn) {
        store.isLoading = false;
        store.failed(error);
      }
      return;
    }
    if (own !== turn) return;  // something else has been asked for since
    const isSame = asked === query && !store.isLoading && reply.total === total
      && JSON.stringify([problems, samples]) === JSON.stringify([reply.problems, reply.samples]);
    problems.splice(0, Infinity, ...reply.problems);
    samples.splice(0, Infinity, ...reply.samples);
    shown = new Array(reply.count);  // most of them are only counted
    reply.shown.forEach((at, place) => { shown[reply.page * reply.size + place] = samples[at]; });
    const isSearching = reply.searched !== null && reply.searched < reply.total;
    note = isSearching ? `, ${Math.floor(100 * reply.searched / reply.total)}% searched` : "";
    total = reply.total;
    asked = query;
    store.version = reply.version;
    store.isLoading = false;
    if (!isSame) store.changed();
    if (isSearching) setTimeout(() => { if (own === turn) load(query); }, 500);
  };

  const ask = (values) => {
    if (values.run === -1) {  // a run that is not here: an address of other runs
      store.isLoading = false;
      return [];
    }
    const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null)).toString();
    if (query !== store.asking) {
      store.asking = query;
      store.isLoading = true;
      load(query);
    }
    return shown;
  };
  const numberOf = (name) => runs.findIndex((run) => run.name === name);

  return Object.assign(store, {
    find: (filters, page) => ask({
      run: filters.run === "" ? null : numberOf(filters.run), task: filters.task, repaired: filters.repaired,
      verdicts: ["right", "wrong", "unscorable"].filter((name) => filters[name]).join(","),
      low: filters.low / 100, high: filters.high / 100,
      words: filters.find.trim(), sort: filters.sort, view: filters.view, page,
    }),
    besidesOf: (task, id, page) => ask({ task, question: id, view: "side", sort: "question", page }),
    answer: (run, task, id, sample) => ask({ run: numberOf(run), task, question: id, sample }),
    ofQuestion: (number) => samples.filter((s) => s.q === number),
    searchable: () => {},
    again: () => load(store.asking),
    total: () => total,
    note: () => note,
  });
};

// Looks at the server every so often, and tells the reader what is going on.
const keepCurrent = (store) => {
  const answers = byId("answers"), main = answers.parentElement;
  const bar = make("p", "live"), words = make("span"), earlier = make("p", "earlier"), fresh = make("button", "fresh quiet", "Show new answers");
  const madeFrom = new WeakMap();  // the HTML of a node: what a reader opens in it changes it
  let page = store.madeAs, isLooking = false;

  const carryOver = (old, now) => {
    const opened = [...old.querySelectorAll("details")].map((node) => node.open);
    now.querySelectorAll("details").forEach((node, at) => { if (at in opened) node.open = opened[at]; });
    for (const select of old.querySelectorAll("select[id]")) {
      const other = now.querySelector(`#${CSS.escape(select.id)}`);
      if (other && [...other.options].some((option) => option.value === select.value)) other.value = select.value;
    }
  };
  const swap = async () => {
    const now = new DOMParser().parseFromString(await (await fetched("./")).text(), "text/html");
    const gone = new Map([...main.children].filter((node) => node.id).map((node) => [node.id, node]));
    let before = bar;
    for (const node of [...now.querySelector("main").children].filter((child) => child.id)) {
      const old = gone.get(node.id), html = node.outerHTML;
      gone.delete(node.id);
      if (old && (old === answers || madeFrom.get(old) === html)) {
        before = old;
        continue;
      }
      const placed = document.adoptNode(node);
      if (old) {
        carryOver(old, placed);
        old.replaceWith(placed);
      } else before.after(placed);
      madeFrom.set(placed, html);
      wireTables(placed);
      before = placed;
    }
    for (const old of gone.values()) old.remove();
    for (const selector of ["nav ul", "#f-run", "#f-task"]) {
      const old = document.querySelector(selector), other = now.querySelector(selector);
      if (!old || !other || old.innerHTML === other.innerHTML) continue;
      const chosen = old.value;
      old.replaceChildren(...[...other.childNodes].map((node) => document.adoptNode(node)));
      if (chosen !== undefined) old.value = chosen;
    }
    const data = JSON.parse(now.getElementById("data").textContent);
    store.runs.splice(0, Infinity, ...data.runs);
    store.measured = data.total;
    document.title = now.title;
  };

  // Cards that someone reads stay as they are: a button says that there are newer ones.
  const isReading = () => {
    const cards = byId("cards"), box = cards.getBoundingClientRect();
    return cards.contains(document.activeElement) || cards.querySelector("[aria-expanded=true]") !== null
      || (String(getSelection()) !== "" && cards.contains(getSelection().anchorNode)) || (box.top < -20 && box.bottom > 0);
  };
  const showNew = () => {
    fresh.hidden = true;
    store.again();
  };

  const since = (seconds) => {
    if (seconds < 3) return "just now";
    if (seconds < 120) return `${Math.round(seconds)} s ago`;
    return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
  };
  const answersOf = (n) => `${n.toLocaleString("en")} answer${n === 1 ? "" : "s"}`;
  const tell = (state) => {
    // A server's first page has no numbers: nothing of it is shown until another has come.
    const count = answersOf(state.answers), isReading = state.reading !== null || page === 0;
    const far = state.reading !== null && state.reading < 1 ? `Reading, ${Math.floor(100 * state.reading)}%` : "Measuring";
    words.textContent = state.error || (isReading ? `${far}: ${count}` : `Live: ${count}, last change ${since(state.quiet)}`);
    bar.classList.toggle("lost", state.error !== "");
    document.body.classList.toggle("reading", isReading);
    // Answers are shown at once, what is computed from them later: until then it is said what that rests on.
    const isBehind = !isReading && (state.behind || state.page !== page);
    const what = store.measured === state.answers ? "are of an earlier state" : `are based on ${answersOf(store.measured)}`;
    earlier.textContent = `Headline, tables and figures ${what}${state.error ? "" : " and are being updated"}.`;
    earlier.hidden = !isBehind;
    document.body.classList.toggle("behind", isBehind);
  };
  const complain = (error) => {
    bar.classList.add("lost");
    words.textContent = error instanceof TypeError ? "The server does not respond. Is `rlcr view` still running?" : String(error.message);
  };
  store.failed = complain;

  const look = async () => {
    if (!document.hidden && !isLooking) {
      isLooking = true;
      try {
        const state = await (await fetched("state")).json();
        tell(state);
        if (state.page !== page) {
          await swap();
          page = state.page;
          tell(state);
          store.renewed();
        }
        if (!store.isLoading && state.version !== store.version) {
          if (isReading()) fresh.hidden = false; else showNew();
        }
      } catch (error) { complain(error); }
      isLooking = false;
    }
    setTimeout(look, LOOK_EVERY);
  };

  bar.setAttribute("role", "status");
  bar.append(make("span", "live-dot"), words);
  earlier.hidden = true;
  main.prepend(bar, earlier);
  fresh.type = "button";
  fresh.hidden = true;
  fresh.addEventListener("click", showNew);
  byId("cards").before(fresh);
  look();
};
