// The answers that the page holds, and how some of them are found. Its data are described in docs/report.md.
const RIGHT = 1, WRONG = 0, UNSCORABLE = -1;

const makeStore = ({ runs, colours, problems, samples }) => {
  const numbers = new Map(runs.map((run, number) => [run.name, number]));
  let texts = null;  // lower case, made when first searched

  const searchable = () => {
    if (!texts) {
      const asked = problems.map((p) => `${p.i}\n${p.x}\n${p.g.join("\n")}`.toLowerCase());
      texts = samples.map((s) => {
        const written = [...s.p.map((part) => part[1]), s.a || "", s.fa || "", s.fc || ""];
        return `${asked[s.q]}\n${written.join("\n").toLowerCase()}`;
      });
    }
    return texts;
  };

  // Wrong ones by confidence, then the unscorable, then the right ones, the unsure first.
  const alarm = (s) => (s.v === WRONG ? 2 + (s.c ?? -0.5) : s.v === RIGHT ? -(s.c ?? 0) - 1 : 0.5);
  const ORDERS = {
    wrong: (a, b) => alarm(b) - alarm(a),
    unsure: (a, b) => (b.v === RIGHT) - (a.v === RIGHT) || (a.c ?? 2) - (b.c ?? 2),
    long: (a, b) => (b.n ?? 0) - (a.n ?? 0),
    question: null,
  };

  // One sample of each question and number: what stands side by side is found from it.
  const oneOfEach = (found) => {
    const seen = new Set();
    return found.filter((s) => {
      const key = `${s.q}/${s.s}`;
      return seen.has(key) ? false : seen.add(key);
    });
  };

  const find = (filters) => {
    const run = filters.run === "" ? null : numbers.get(filters.run) ?? -1;
    const low = filters.low / 100 - 1e-9, high = filters.high / 100 + 1e-9;
    const every = filters.low <= 0 && filters.high >= 100;
    const wanted = { [RIGHT]: filters.right, [WRONG]: filters.wrong, [UNSCORABLE]: filters.unscorable };
    const words = filters.find.trim().toLowerCase(), all = words ? searchable() : null;
    const found = samples.filter((s, at) => wanted[s.v]
      && (run === null || s.r === run)
      && (filters.task === "" || problems[s.q].t === filters.task)
      && (filters.repaired === "" || ("fa" in s || "fc" in s) === (filters.repaired === "yes"))
      && (every || (s.c !== null && s.c >= low && s.c <= high))
      && (!all || all[at].includes(words)));
    const order = ORDERS[filters.sort];
    if (order) found.sort(order);
    return filters.view === "side" ? oneOfEach(found) : found;
  };

  const question = (task, id) => problems.findIndex((p) => p.t === task && p.i === id);

  return {
    runs, colours, problems, find, searchable,
    isRemote: false, isLoading: false,
    total: () => samples.length,
    note: () => "",
    ofQuestion: (number) => samples.filter((s) => s.q === number),
    // The samples of a question, one of each number; none where the page does not hold it.
    besidesOf: (task, id) => oneOfEach(samples.filter((s) => s.q === question(task, id))),
    // One answer by what identifies it in any page of these runs.
    answer: (run, task, id, sample) => {
      const q = question(task, id), r = numbers.get(run);
      return samples.filter((s) => s.q === q && s.r === r && String(s.s) === sample);
    },
  };
};
