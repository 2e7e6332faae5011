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
  let isArriving = false;  // what was opened is not in view yet
  let isEarly = data.live && data.page === 0;  // a server's first page, which does not know the tasks yet

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
  const isFiltered = () => {
    const values = filters();
    return Object.keys(BEGINNING).some((name) => !["sort", "view"].includes(name) && values[name] !== BEGINNING[name]);
  };
  const setFilters = (values) => {
    for (const name of CHECKS) field(name).checked = values[name];
    for (const name of [...WORDS, ...NUMBERS]) field(name).value = values[name];
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

  // What one field of an address says; undefined where it is nothing that this page knows.
  const readField = (name, text) => {
    if (CHECKS.includes(name)) return ["yes", "no"].includes(text) ? text === "yes" : undefined;
    if (NUMBERS.includes(name)) return text.trim() && text >= 0 && text <= 100 ? Number(text) : undefined;
    if (name === "page") return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : undefined;
    if (name === "find") return text;
    return WORDS.includes(name) && [...field(name).options].some((option) => option.value === text) ? text : undefined;
  };
  let leftOut = [];
  const tellLeftOut = (fields) => {
    leftOut = fields;
    const said = fields.map(([name, text]) => `${name} “${text.length > 60 ? `${text.slice(0, 60)}…` : text}”`);
    const verb = said.length === 1 ? "is" : "are";
    byId("left-out").hidden = !said.length;
    byId("left-out").textContent = said.length ? `${said.join(", ")} in the link ${verb} not known here and ${verb === "is" ? "was" : "were"} ignored.` : "";
  };

  const follow = () => {
    const [kind, text] = location.hash.slice(1).split(/\?(.*)/s);
    if (!["answers", "question", "answer"].includes(kind)) return false;
    const values = new URLSearchParams(text || "");
    const get = (name) => values.get(name) || "";
    opened = null;
    tellLeftOut([]);
    if (kind === "answers" && text) {
      const fields = [...values].map(([name, word]) => [name, word, readField(name, word)]);
      const known = Object.fromEntries(fields.filter(([, , value]) => value !== undefined).map(([name, , value]) => [name, value]));
      const { page: number = 1, ...wanted } = known, unknown = fields.filter(([, , value]) => value === undefined);
      setFilters({ ...BEGINNING, ...wanted });
      page = number - 1;
      if (unknown.length && !isEarly) {
        tellLeftOut(unknown);
        keepAddress();
      }
    } else if (kind === "answers") {
      // The section itself: as the filters stand.
    } else if (kind === "question") {
      opened = { view: "side", title: "One question", find: () => store.besidesOf(get("task"), get("id"), page) };
    } else {
      const find = () => store.answer(get("run"), get("task"), get("id"), get("sample"));
      opened = { view: "one", title: `One answer of ${get("run")}`, find };
    }
    if (opened) opened.title += `: ${get("id")}`;
    isArriving = opened !== null;
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
    if (page >= pages) {
      const asked = String(page + 1);
      page = pages - 1;
      if (!opened && !isEarly) {
        tellLeftOut([...leftOut, ["page", asked]]);
        keepAddress();
      }
    }
    const shown = found.slice(page * size, (page + 1) * size).filter(Boolean);
    byId("cards").replaceChildren(...shown.map(view() === "side" ? cards.besides : cards.card));
    if (!shown.length) byId("cards").append(make("p", "missing", whyNone()));
    const number = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
    const total = number(store.total(), "answer"), isSide = view() === "side";
    const count = isSide ? number(found.length, "question") : `${found.length.toLocaleString("en")} of ${total}`;
    byId("count").textContent = count + store.note();
    // Paper shows these cards and no others.
    const passing = number(found.length, isSide ? "question" : "answer"), few = opened || !isFiltered() ? "" : " that match the filters";
    byId("printed").textContent = `Printed here: ${shown.length} of ${passing}${few} (page ${page + 1} of ${pages}).`;
    byId("printed").hidden = !shown.length || (opened !== null && pages === 1);
    for (const end of ["", "-2"]) {
      byId(`page-number${end}`).textContent = `${(page + 1).toLocaleString("en")} / ${pages.toLocaleString("en")}`;
      byId(`previous${end}`).disabled = page === 0;
      byId(`next${end}`).disabled = page >= pages - 1;
    }
    // The filters, and what they leave of all, are those of the list: nothing of what is opened.
    for (const node of document.querySelectorAll(".pager")) node.hidden = opened !== null && pages === 1;
    for (const node of [byId("count"), document.querySelector(".reset")]) node.hidden = opened !== null;
    byId("opened").hidden = !opened;
    if (opened) byId("opened").firstElementChild.textContent = opened.title;
    if (isArriving) arrive();
  };
  const whyNone = () => {
    if (opened) return "That answer is not on this page.";
    const { low, high } = filters();
    const hint = low > high ? `: the confidence range is the wrong way round (at least ${low}%, at most ${high}%)` : "";
    return `No answers match these filters${hint}.`;
  };
  const arrive = () => {
    isArriving = false;
    byId("opened").scrollIntoView({ block: "start" });
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
    isEarly = isArriving = false;
    tellLeftOut([]);
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
    follow();
  });

  form.hidden = false;
  if (store.isRemote) {
    let hasMoved = false;
    for (const name of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      window.addEventListener(name, () => { hasMoved = true; }, { once: true, passive: true });
    }
    store.changed = refind;
    // All runs and tasks are known now, and the sections above have come: what a link asks for is looked up again.
    store.renewed = () => {
      if (!isEarly) return;
      isEarly = false;
      if (!opened) follow(); else if (!hasMoved) arrive();
    };
    keepCurrent(store);
  }
  if (!follow()) refind(); else if (!opened) toAnswers();
  // The first search need not wait for its index.
  field("find").addEventListener("focus", () => store.searchable(), { once: true });
})();
