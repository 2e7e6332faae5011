// Answers as cards. Everything that a model or a data set wrote becomes text, never markup.
const SHORT = 900;

const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};

const makeCards = (store, addressOf) => {
  const { runs, colours, problems } = store;
  const NAMES = { think: "Think", answer: "Answer", analysis: "Analysis", confidence: "Confidence" };
  const percent = (c) => `${Math.round(c * 1000) / 10}%`;
  const verdictOf = (s) => (s.v === RIGHT ? ["right", "✓ right"] : s.v === WRONG ? ["wrong", "✗ wrong"] : ["lost", "? unscorable"]);

  const body = (text) => {
    const box = make("div"), isLong = text.length > SHORT;
    const shown = make("div", "body", isLong ? `${text.slice(0, SHORT)}…` : text);
    box.append(shown);
    if (isLong) {
      const all = `Show all ${text.length.toLocaleString("en")} characters`;
      const more = make("button", "more quiet", all);
      more.type = "button";
      more.setAttribute("aria-expanded", "false");
      more.addEventListener("click", () => {
        const open = more.getAttribute("aria-expanded") !== "true";
        more.setAttribute("aria-expanded", String(open));
        shown.textContent = open ? text : `${text.slice(0, SHORT)}…`;
        more.textContent = open ? "Show less" : all;
      });
      box.append(more);
    }
    return box;
  };

  const block = (kind, label, text) => {
    const box = make("div", `block ${kind}`);
    box.append(make("p", "name", label), body(text));
    return box;
  };

  const runName = (r) => {
    const box = make("span", "run-name"), dot = make("span", `dot s${r % colours}`);
    dot.setAttribute("aria-hidden", "true");
    box.append(dot, make("span", "", runs[r].name));
    return box;
  };

  const meter = (s) => {
    const [kind] = verdictOf(s), box = make("div", `meter ${kind}`);
    if (s.c === null) {
      box.append(make("span", "", "no confidence stated"));
      return box;
    }
    const track = make("div", "track"), fill = make("div", "fill");
    track.setAttribute("role", "meter");
    track.setAttribute("aria-label", "stated confidence");
    track.setAttribute("aria-valuemin", "0");
    track.setAttribute("aria-valuemax", "100");
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
    const box = make("div", "question"), facts = make("div", "facts");
    box.append(block("", "Question", p.x || "(the run did not keep the question)"));
    facts.append(block("", p.g.length > 1 ? "Gold answers" : "Gold answer", p.g.join("\n") || "(none)"));
    if (answer !== undefined) facts.append(block("", "Graded answer", answer));
    box.append(facts);
    return box;
  };

  const where = (p, s, tokens) => {
    const parts = [p.t, p.i];
    if (s.s) parts.push(`sample ${s.s}`);
    if (tokens && s.n) parts.push(`${s.n.toLocaleString("en")} tokens`);
    return make("span", "where", parts.join(" · "));
  };

  const link = (address, text) => {
    const node = make("a", "link", text);
    node.href = address;
    return node;
  };

  // One answer.
  const card = (s) => {
    const p = problems[s.q], [kind, word] = verdictOf(s);
    const node = make("article", "card"), head = make("div", "card-head");
    head.append(make("span", `verdict ${kind}`, word), runName(s.r), where(p, s, true), ...badges(s));
    head.append(link(addressOf.answer(s), "Link"));
    node.append(head, meter(s), asked(p, s.a ?? "(none)"), ...response(s));
    if (runs.length > 1) {
      const box = make("div", "block");
      box.append(link(addressOf.question(s), "Compare the runs on this question"));
      box.firstChild.classList.add("across");
      node.append(box);
    }
    return node;
  };

  // The answers of all runs to a question.
  const besides = (s) => {
    const p = problems[s.q], node = make("article", "card"), head = make("div", "card-head");
    head.append(where(p, s, false), link(addressOf.question(s), "Link"));
    const columns = make("div", "side"), mates = store.ofQuestion(s.q);
    runs.forEach((_, r) => {
      const own = mates.filter((other) => other.r === r);
      const mate = own.find((other) => other.s === s.s) || own[0];
      const column = make("div", `s${r % colours}`), top = make("div", "card-head");
      top.append(runName(r));
      column.append(top);
      columns.append(column);
      if (!mate) {
        column.append(make("p", "absent", "no answer from this run on this page"));
        return;
      }
      const [kind, word] = verdictOf(mate);
      top.append(make("span", `verdict ${kind}`, word), ...badges(mate), link(addressOf.answer(mate), "Link"));
      column.append(meter(mate), ...response(mate));
    });
    node.append(head, asked(p), columns);
    return node;
  };

  return { card, besides };
};
