"use strict";
// The part of a page that a server keeps current (`rlcr view`): it asks whether anything is new, puts new tables
// and figures in the place of old ones, and fetches the answers page by page. What it gets is text for the
// script of the page, or a page that the same server made; nothing in it is run.
window.rlcrLive = (() => {
  const EVERY = 700;  // milliseconds between two looks
  const by = (id) => document.getElementById(id);
  const make = (tag, className, text) => { const node = document.createElement(tag); node.className = className; node.textContent = text; return node; };
  const bar = make("div", "live", ""), dot = make("span", "live-dot", ""), words = make("span", "", "");
  const fresh = make("button", "quiet", "");
  let page = null;  // what the script of the page lets us do
  let seen = { version: -1, page: null }, asked = 0, waiting = false, last = "";

  const get = async (address) => {
    const reply = await fetch(address, { cache: "no-store", credentials: "omit" });
    if (!reply.ok) throw new Error(`${reply.status}: ${(await reply.text()).trim()}`);
    return reply;
  };

  // --- answers -------------------------------------------------------------------------------------
  const ask = async ({ quietly = false } = {}) => {
    const turn = ++asked;
    const fields = Object.entries(page.query()).filter(([name, value]) => value !== null && (value !== "" || name === "verdicts"));
    let found;
    try { found = await (await get(`answers?${new URLSearchParams(fields)}`)).json(); } catch (error) { if (turn === asked) say(error); return; }
    if (turn !== asked) return;  // the reader has asked for something else since
    seen.version = found.version;
    const { version, ...shown } = found;
    const text = JSON.stringify(shown);
    if (text !== last || !quietly) { last = text; page.show(found); }
    fresh.hidden = true;
    if (found.searched !== null && found.searched < found.total) setTimeout(() => { if (turn === asked) ask({ quietly: true }); }, 500);
  };
  // Cards that someone reads stay: a button says that there are newer ones.
  const isReading = () => {
    const cards = by("cards");
    return cards.contains(document.activeElement) || cards.querySelector("[aria-expanded=true]") !== null
      || String(getSelection()) !== "" || (cards.getBoundingClientRect().top < -20 && cards.getBoundingClientRect().bottom > 0);
  };
  fresh.type = "button";
  fresh.addEventListener("click", () => ask());

  // --- tables and figures --------------------------------------------------------------------------
  const remember = new WeakMap();  // what a node was made from: what a reader opens changes it
  const sameButOpen = (old, now) => {
    const open = [...old.querySelectorAll("details")].map((node) => node.open);
    now.querySelectorAll("details").forEach((node, at) => { if (at in open) node.open = open[at]; });
    return now;
  };
  const swap = async () => {
    const now = new DOMParser().parseFromString(await (await get("./")).text(), "text/html");
    const keep = by("samples"), main = keep.parentElement;
    const news = [...now.querySelector("main").children].filter((node) => node.id !== "samples").map((node) => document.adoptNode(node));
    const olds = [...main.children].filter((node) => node !== keep && node !== bar);
    const named = new Map(olds.map((node) => [node.id || node.className, node]));
    for (const node of news) {
      const old = named.get(node.id || node.className);
      named.delete(node.id || node.className);
      const html = node.outerHTML;
      if (old && remember.get(old) === html) { main.insertBefore(old, bar); continue; }
      const placed = old ? sameButOpen(old, node) : node;
      main.insertBefore(placed, bar);
      if (old) old.remove();
      remember.set(placed, html);
    }
    for (const old of named.values()) old.remove();
    const nav = document.querySelector("nav"), other = now.querySelector("nav");
    if (nav && other && nav.innerHTML !== other.innerHTML) nav.replaceChildren(...[...other.childNodes].map((node) => document.adoptNode(node)));
    for (const id of ["f-run", "f-task"]) options(by(id), now.getElementById(id));
    const data = now.getElementById("data");
    if (data) page.runs(JSON.parse(data.textContent).runs);
    document.title = now.title;
  };
  const options = (old, now) => {
    if (!old || !now || old.options.length === now.options.length) return;
    const chosen = old.value;
    old.replaceChildren(...[...now.children].map((node) => document.adoptNode(node)));
    old.value = chosen;
  };

  // --- what is going on ----------------------------------------------------------------------------
  const ago = (seconds) => (seconds < 3 ? "just now" : seconds < 120 ? `${Math.round(seconds)} s ago` : seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`);
  const say = (error) => { bar.classList.add("lost"); words.textContent = error instanceof TypeError ? "The server does not answer: has `rlcr view` ended?" : String(error.message || error); };
  const tell = (state) => {
    bar.classList.toggle("lost", state.error !== "");
    const count = `${state.answers.toLocaleString("en")} answers`;
    words.textContent = state.error ? state.error : state.reading !== null ? `${state.reading < 1 ? `Reading, ${Math.floor(100 * state.reading)}%` : "Measuring"}: ${count}` : `Live: ${count}, last change ${ago(state.quiet)}`;
    document.body.classList.toggle("reading", state.reading !== null);
  };
  const look = async () => {
    if (!document.hidden && !waiting) {
      waiting = true;
      try {
        const state = await (await get("state")).json();
        tell(state);
        if (state.page !== seen.page) { await swap(); seen.page = state.page; }
        if (state.version !== seen.version) {
          if (!isReading()) await ask({ quietly: true });
          else { fresh.textContent = "Show new answers"; fresh.hidden = false; seen.version = state.version; }
        }
      } catch (error) { say(error); }
      waiting = false;
    }
    setTimeout(look, EVERY);
  };
  const start = (functions) => {
    page = functions;
    bar.setAttribute("role", "status");
    fresh.hidden = true;
    bar.append(dot, words, fresh);
    by("samples").before(bar);
    ask();
    look();
  };
  return { ask, start };
})();
