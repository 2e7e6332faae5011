// The answers: filters, pages, and an address for what is seen.
//
//   #answers?run=NAME&task=NAME&wrong=no&find=WORDS&…   a list; what is not named is as at the beginning
//   #question?task=NAME&id=ID                           one question, the runs side by side
//   #answer?run=NAME&task=NAME&id=ID&sample=NUMBER      one answer
(() => {
  const form = byId("filters");
  if (!form) return;
  const data = JSON.parse(byId("data").textContent);
  const store = data.live ? liveStore(data) : makeStore(data);
  const PAGE = { one: 10, side: 4 };
  const field = (name) => byId(`f-${name}`);
  const CHECKS = ["right", "wrong", "unscorable"], NUMBERS = ["low", "high"];
  const WORDS = ["find", "run", "task", "repaired", "sort", "view"];
  const BEGINNING = {
    find: "", run: "", task: "", repaired: "", sort: field("sort").options[0].value, view: "one",
    right: true, wrong: true, unscorable: true, low: 0, high: 100,
  };
  let found = [], page = 0;
  let opened = null;  // one question or one answer: { view, find, title }

  // --- filters -------------------------------------------------------------------------------------
  const bound = (name) => {
    const value = parseFloat(field(name).value);
    return Number.isFinite(value) ? Math.min(100, Math.max(0, value)) : BEGINNING[name];
  };
  const filters = () => ({
    ...Object.fromEntries(WORDS.map((name) => [name, field(name).value])),
    ...Object.fromEntries(CHECKS.map((name) => [name, field(name).checked])),
    ...Object.fromEntries(NUMBERS.map((name) => [name, bound(name)])),
  });
  const setFilters = (values) => {
    for (const name of CHECKS) field(name).checked = values[name];
    for (const name of [...WORDS, ...NUMBERS]) field(name).value = values[name];
    // A run or a task that the page does not have leaves a select without a choice.
    for (const name of WORDS) if (field(name).value === "") field(name).value = BEGINNING[name];
  };

  // --- addresses -----------------------------------------------------------------------------------
  const fragment = (kind, values) => {
    const text = new URLSearchParams(values).toString();
    return text ? `#${kind}?${text}` : `#${kind}`;
  };
  const nameOf = (s) => ({ task: store.problems[s.q].t, id: store.problems[s.q].i });
  const addressOf = {
    question: (s) => fragment("question", nameOf(s)),
    answer: (s) => fragment("answer", { run: store.runs[s.r].name, ...nameOf(s), sample: s.s }),
    list: () => {
      const values = filters();
      const changed = Object.keys(BEGINNING).filter((name) => values[name] !== BEGINNING[name]);
      const words = changed.map((name) => [name, typeof values[name] === "boolean" ? "no" : values[name]]);
      return fragment("answers", [...words, ...(page ? [["page", page + 1]] : [])]);
    },
  };
  const keepAddress = () => history.replaceState(null, "", addressOf.list());

  const follow = () => {
    const [kind, text] = location.hash.slice(1).split(/\?(.*)/s);
    if (!["answers", "question", "answer"].includes(kind)) return false;
    const values = new URLSearchParams(text || "");
    const get = (name) => values.get(name) || "";
    opened = null;
    if (kind === "answers" && text) {
      const given = (name, read) => (values.has(name) ? read(get(name)) : BEGINNING[name]);
      setFilters({
        ...Object.fromEntries(WORDS.map((name) => [name, given(name, String)])),
        ...Object.fromEntries(CHECKS.map((name) => [name, given(name, (word) => word !== "no")])),
        ...Object.fromEntries(NUMBERS.map((name) => [name, given(name, Number)])),
      });
      page = Math.max(0, (parseInt(get("page"), 10) || 1) - 1);
    } else if (kind === "answers") {
      // The section itself: as the filters stand.
    } else if (kind === "question") {
      opened = { view: "side", title: "One question", find: () => store.besidesOf(get("task"), get("id"), page) };
    } else {
      const find = () => store.answer(get("run"), get("task"), get("id"), get("sample"));
      opened = { view: "one", title: `One answer of ${get("run")}`, find };
    }
    if (opened) opened.title += `: ${get("id")}`;
    refind();
    return true;
  };

  // --- what is shown -------------------------------------------------------------------------------
  const cards = makeCards(store, addressOf);
  const view = () => (opened ? opened.view : filters().view);
  const refind = () => {
    found = opened ? opened.find() : store.find(filters(), page);
    if (!store.isLoading) draw();
  };
  const draw = () => {
    const size = PAGE[view()], pages = Math.max(1, Math.ceil(found.length / size));
    page = Math.min(page, pages - 1);
    const shown = found.slice(page * size, (page + 1) * size).filter(Boolean);
    byId("cards").replaceChildren(...shown.map(view() === "side" ? cards.besides : cards.card));
    if (!shown.length) {
      const why = opened ? "This page does not hold it." : "No answer passes these filters.";
      byId("cards").append(make("p", "missing", why));
    }
    const count = found.length.toLocaleString("en"), isOne = found.length === 1;
    byId("count").textContent = view() === "side"
      ? `${count} question${isOne ? "" : "s"}`
      : `${count} of ${store.total().toLocaleString("en")} answers`;
    byId("count").textContent += store.note();
    for (const end of ["", "-2"]) {
      byId(`page-number${end}`).textContent = `${(page + 1).toLocaleString("en")} / ${pages.toLocaleString("en")}`;
      byId(`previous${end}`).disabled = page === 0;
      byId(`next${end}`).disabled = page >= pages - 1;
    }
    byId("opened").hidden = !opened;
    if (opened) byId("opened").firstElementChild.textContent = opened.title;
  };

  // --- what a reader does --------------------------------------------------------------------------
  // New cards under a pointer that is down would take its click away: they wait until it is up.
  let isHeld = false, isWaiting = false, timer = 0;
  const filter = () => {
    clearTimeout(timer);
    if (isHeld) {
      isWaiting = true;
      return;
    }
    opened = null;
    page = 0;
    refind();
    keepAddress();
  };
  byId("cards").addEventListener("pointerdown", () => { isHeld = true; });
  for (const name of ["pointerup", "pointercancel"]) {
    window.addEventListener(name, () => setTimeout(() => {
      isHeld = false;
      if (isWaiting) filter();
      isWaiting = false;
    }));
  }

  // A link in a card opens something: what was about to be filtered is kept for the way back.
  byId("cards").addEventListener("click", (event) => {
    if (!event.target.closest("a")) return;
    clearTimeout(timer);
    isWaiting = false;
    if (!opened) keepAddress();
  });

  const toAnswers = () => byId("answers").scrollIntoView({ block: "start" });
  const turn = (step) => {
    page += step;
    if (store.isRemote) refind(); else draw();
    if (!opened) keepAddress();
    toAnswers();
  };
  for (const end of ["", "-2"]) {
    byId(`previous${end}`).addEventListener("click", () => turn(-1));
    byId(`next${end}`).addEventListener("click", () => turn(1));
  }
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(filter, 120);
  });
  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  byId("back").addEventListener("click", () => {
    filter();
    field("view").focus();
  });
  window.addEventListener("hashchange", () => {
    if (location.hash === "" && opened) history.replaceState(null, "", "#answers");
    if (follow() && opened) byId("opened").scrollIntoView({ block: "nearest" });
  });

  form.hidden = false;
  for (const node of document.querySelectorAll(".pager")) node.hidden = false;
  if (store.isRemote) {
    store.changed = refind;
    keepCurrent(store);
  }
  if (follow()) toAnswers(); else refind();
  // The first search need not wait for its index.
  field("find").addEventListener("focus", () => store.searchable(), { once: true });
})();
