"use strict";
(() => {
  const root = document.documentElement;
  const by = (id) => document.getElementById(id);

  // --- light and dark ------------------------------------------------------------------------------
  const button = by("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("rlcr-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours"); };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("rlcr-theme", root.dataset.theme); } catch { /* a private window keeps nothing */ }
    name();
  });
  system.addEventListener("change", name);
  name();

  // --- values of marks -----------------------------------------------------------------------------
  const tip = by("tip");
  let marked = null;
  const hide = () => { tip.hidden = true; if (marked) marked.classList.remove("on"); marked = null; };
  const show = (mark) => {
    if (marked && marked !== mark) marked.classList.remove("on");
    marked = mark;
    mark.classList.add("on");
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    const box = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    let x = box.left + box.width / 2 - own.width / 2, y = box.top - own.height - 8;
    if (y < 60) y = box.bottom + 8;
    x = Math.max(6, Math.min(x, root.clientWidth - own.width - 6));
    tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  };
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (mark) show(mark); else hide();
  });
  document.addEventListener("scroll", () => {
    if (!marked) return;
    const box = marked.getBoundingClientRect();
    if (box.bottom < 0 || box.top > root.clientHeight) hide(); else show(marked);
  }, { passive: true });
  document.addEventListener("keydown", (event) => {
    const chart = document.activeElement && document.activeElement.closest ? document.activeElement.closest("svg.chart") : null;
    if (event.key === "Escape") hide();
    if (!chart || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const marks = [...chart.querySelectorAll("[data-tip]:not(.ground)")];
    if (!marks.length) return;
    event.preventDefault();
    const at = marks.indexOf(marked);
    const step = event.key === "ArrowRight" ? 1 : -1;
    show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
  });
  document.addEventListener("focusout", hide);

  // --- answers -------------------------------------------------------------------------------------
  const form = by("filters");
  if (!form) return;
  // With a server behind the page (live.js), problems and samples are those of one page of answers.
  const live = window.rlcrLive || null;
  let { runs, colours, problems, samples } = JSON.parse(by("data").textContent);
  const RIGHT = 1, WRONG = 0;
  const PAGE = { one: 10, side: 4 }, SHORT = 900;
  const f = (id) => by(`f-${id}`);
  let texts = null;  // lower case, made when first searched
  let found = [], count = 0, total = samples.length, searched = null, page = 0, only = null;

  const percent = (c) => `${Math.round(c * 1000) / 10}%`;
  const repaired = (s) => "fa" in s || "fc" in s;
  const searchable = () => {
    if (!texts) {
      const asked = problems.map((p) => `${p.i}\n${p.x}\n${p.g.join("\n")}`.toLowerCase());
      texts = samples.map((s) => [asked[s.q], ...s.p.map((part) => part[1]), s.a || "", s.fa || "", s.fc || ""].join("\n").toLowerCase());
    }
    return texts;
  };
  // Wrong ones by confidence, then the unscorable, then the right ones, the unsure first.
  const alarm = (s) => (s.v === WRONG ? 2 + (s.c ?? -0.5) : s.v === RIGHT ? -(s.c ?? 0) - 1 : 0.5);
  const ORDERS = {
    wrong: (a, b) => alarm(b) - alarm(a),
    unsure: (a, b) => (b.v === RIGHT) - (a.v === RIGHT) || (a.c ?? 2) - (b.c ?? 2),
    question: () => 0,
    long: (a, b) => (b.n ?? 0) - (a.n ?? 0),
  };

  const bound = (id, otherwise) => { const v = parseFloat(f(id).value); return Number.isFinite(v) ? Math.min(100, Math.max(0, v)) : otherwise; };
  const filter = () => {
    page = 0;
    if (live) { live.ask(); return; }
    const run = f("run").value, task = f("task").value, fixed = f("repaired").value;
    const low = bound("low", 0) / 100, high = bound("high", 100) / 100, every = low <= 0 && high >= 1;
    const wanted = { 1: f("right").checked, 0: f("wrong").checked, [-1]: f("unscorable").checked };
    const words = f("search").value.trim().toLowerCase();
    const all = words ? searchable() : null;
    let kept = [];
    samples.forEach((s, at) => {
      if (only !== null && s.q !== only) return;
      if (!wanted[s.v]) return;
      if (run !== "" && s.r !== Number(run)) return;
      if (task !== "" && problems[s.q].t !== task) return;
      if (fixed && repaired(s) !== (fixed === "yes")) return;
      if (!every && (s.c === null || s.c < low - 1e-9 || s.c > high + 1e-9)) return;
      if (all && !all[at].includes(words)) return;
      kept.push(s);
    });
    kept.sort(ORDERS[f("sort").value] || ORDERS.wrong);
    if (view() === "side") {
      const seen = new Set();
      kept = kept.filter((s) => { const key = `${s.q}/${s.s}`; if (seen.has(key)) return false; seen.add(key); return true; });
    }
    found = kept;
    count = found.length;
    draw();
  };
  const view = () => (f("view").value === "side" || only !== null ? "side" : "one");

  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const body = (text) => {
    const box = make("div");
    const shown = make("div", "body", text.length > SHORT ? `${text.slice(0, SHORT)}…` : text);
    box.append(shown);
    if (text.length > SHORT) {
      const more = make("button", "more quiet", `Show all ${text.length.toLocaleString("en")} characters`);
      more.type = "button";
      more.addEventListener("click", () => {
        const open = more.getAttribute("aria-expanded") !== "true";
        more.setAttribute("aria-expanded", String(open));
        shown.textContent = open ? text : `${text.slice(0, SHORT)}…`;
        more.textContent = open ? "Show less" : `Show all ${text.length.toLocaleString("en")} characters`;
      });
      more.setAttribute("aria-expanded", "false");
      box.append(more);
    }
    return box;
  };
  const block = (kind, label, text) => { const box = make("div", `block ${kind}`); box.append(make("p", "name", label), body(text)); return box; };

  const verdictOf = (s) => (s.v === RIGHT ? ["right", "✓ right"] : s.v === WRONG ? ["wrong", "✗ wrong"] : ["lost", "? unscorable"]);
  const runName = (r) => {
    const box = make("span", "run-name"), dot = make("span", `dot s${r % colours}`);
    dot.setAttribute("aria-hidden", "true");
    box.append(dot, make("span", "", runs[r].name));
    return box;
  };
  const meter = (s) => {
    const [kind] = verdictOf(s), box = make("div", `meter ${kind}`);
    if (s.c === null) { box.append(make("span", "", "no confidence stated")); return box; }
    const track = make("div", "track"), fill = make("div", "fill");
    track.setAttribute("role", "meter");
    track.setAttribute("aria-label", "stated confidence");
    track.setAttribute("aria-valuemin", "0"); track.setAttribute("aria-valuemax", "100");
    track.setAttribute("aria-valuenow", String(Math.round(s.c * 1000) / 10));
    fill.style.width = `${s.c * 100}%`;
    track.append(fill);
    box.append(track, make("span", "", `${percent(s.c)} sure`));
    return box;
  };
  const badges = (s) => {
    const tags = [];
    if ("fa" in s) tags.push("answer repaired");
    if ("fc" in s) tags.push("confidence repaired");
    if (s.e) tags.push("cut off");
    return tags.map((text) => make("span", "tag", text));
  };
  const NAMES = { think: "Think", answer: "Answer", analysis: "Analysis", confidence: "Confidence" };
  const response = (s) => {
    const nodes = s.p.map(([tag, text]) => block(`part ${tag || "outside"}`, NAMES[tag] || "Outside the tags", text));
    if (!s.p.length) nodes.push(block("part outside", "Response", "(empty)"));
    if ("fa" in s) nodes.push(block("part answer forced", "Forced answer", s.fa));
    if ("fc" in s) nodes.push(block("part confidence forced", "Forced confidence", s.fc));
    if (s.y) nodes.push(block("part outside", "Why unscorable", s.y));
    if (s.f) nodes.push(block("part outside", "Not well formed", s.f));
    return nodes;
  };
  const asked = (p, answer) => {
    const box = make("div", "question");
    box.append(block("", "Question", p.x || "(the run did not keep the question)"));
    const facts = make("div", "facts");
    facts.append(block("", p.g.length > 1 ? "Gold answers" : "Gold answer", p.g.join("\n") || "(none)"));
    if (answer !== undefined) facts.append(block("", "Graded answer", answer));
    box.append(facts);
    return box;
  };
  const where = (p, s) => make("span", "where", `${p.t} · ${p.i}${s.s ? ` · sample ${s.s}` : ""}${s.n !== undefined ? ` · ${s.n.toLocaleString("en")} tokens` : ""}`);

  const card = (s) => {
    const p = problems[s.q], [kind, word] = verdictOf(s);
    const node = make("article", "card"), head = make("div", "card-head");
    head.append(make("span", `verdict ${kind}`, word), runName(s.r), where(p, s), ...badges(s));
    node.append(head, meter(s), asked(p, s.a ?? "(none)"), ...response(s));
    if (runs.length > 1) {
      const across = make("button", "more quiet across", "Compare the runs on this question");
      across.type = "button";
      across.addEventListener("click", () => { only = s.q; filter(); by("back").focus(); });
      const box = make("div", "block");
      box.append(across);
      node.append(box);
    }
    return node;
  };
  const besides = (s) => {
    const p = problems[s.q], node = make("article", "card"), head = make("div", "card-head");
    head.append(make("span", "where", `${p.t} · ${p.i}${s.s ? ` · sample ${s.s}` : ""}`));
    const columns = make("div", "side");
    const mates = samples.filter((other) => other.q === s.q);
    runs.forEach((_, r) => {
      const own = mates.filter((other) => other.r === r);
      const mate = own.find((other) => other.s === s.s) || own[0];
      const column = make("div", `s${r % colours}`), top = make("div", "card-head");
      top.append(runName(r));
      column.append(top);
      if (!mate) { column.append(make("p", "absent", "no answer of this run is on the page")); columns.append(column); return; }
      const [kind, word] = verdictOf(mate);
      top.append(make("span", `verdict ${kind}`, word), ...badges(mate));
      column.append(meter(mate), ...response(mate));
      columns.append(column);
    });
    node.append(head, asked(p), columns);
    return node;
  };

  const draw = () => {
    const size = PAGE[view()], pages = Math.max(1, Math.ceil(count / size));
    page = Math.min(page, pages - 1);
    const shown = live ? found : found.slice(page * size, (page + 1) * size);
    by("cards").replaceChildren(...shown.map(view() === "side" ? besides : card));
    if (!shown.length) by("cards").append(make("p", "missing", "No answer passes these filters."));
    const many = count.toLocaleString("en");
    by("count").textContent = (view() === "side" ? `${many} question${count === 1 ? "" : "s"}` : `${many} of ${total.toLocaleString("en")} answers`)
      + (searched !== null && searched < total ? `, ${Math.floor(100 * searched / total)}% searched` : "");
    for (const end of ["", "-2"]) {
      by(`page-number${end}`).textContent = `${(page + 1).toLocaleString("en")} / ${pages.toLocaleString("en")}`;
      by(`previous${end}`).disabled = page === 0;
      by(`next${end}`).disabled = page >= pages - 1;
    }
    by("one-question").hidden = only === null;
    if (only !== null) by("one-question").firstElementChild.textContent = `One question: ${problems[only].i}`;
  };
  const turn = (step) => { page += step; if (live) live.ask(); else draw(); by("samples").scrollIntoView({ block: "start" }); };
  for (const end of ["", "-2"]) {
    by(`previous${end}`).addEventListener("click", () => turn(-1));
    by(`next${end}`).addEventListener("click", () => turn(1));
  }
  let waiting = 0;
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); });
  form.addEventListener("change", () => { clearTimeout(waiting); filter(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { only = null; filter(); }));
  by("back").addEventListener("click", () => { only = null; filter(); f("view").focus(); });
  form.hidden = false;
  document.querySelectorAll(".pager").forEach((node) => { node.hidden = false; });
  if (!live) { filter(); return; }
  live.start({
    query: () => ({
      run: f("run").value, task: f("task").value, repaired: f("repaired").value, low: bound("low", 0) / 100, high: bound("high", 100) / 100,
      verdicts: ["right", "wrong", "unscorable"].filter((name) => f(name).checked).join(","), words: f("search").value.trim(),
      sort: f("sort").value, view: view(), question: only === null ? null : problems[only].i, page,
    }),
    show: (answer) => {
      ({ problems, samples, count, total, searched, page } = answer);
      found = answer.shown.map((at) => samples[at]);
      if (only !== null) only = 0;  // the one question that was asked for
      draw();
    },
    runs: (now) => { runs = now; },
  });
})();
