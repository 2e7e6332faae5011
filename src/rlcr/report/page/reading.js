"use strict";

const byId = (id) => document.getElementById(id);

// Light and dark: the system's choice, until the reader makes one.
(() => {
  const root = document.documentElement;
  const button = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("rlcr-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
  };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("rlcr-theme", root.dataset.theme); } catch { /* a private window keeps nothing */ }
    name();
  });
  system.addEventListener("change", name);
  name();
})();

// The table of contents: a line where there is room, a menu where there is not.
(() => {
  const button = byId("contents"), toc = byId("toc");
  const open = (isOpen) => {
    toc.classList.toggle("open", isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
  };
  button.hidden = false;
  toc.classList.add("menu");
  button.addEventListener("click", () => open(!toc.classList.contains("open")));
  toc.addEventListener("click", () => open(false));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") open(false); });
})();

// Tables: which of several is shown, and whether a narrow window shows all columns.
const wireTables = (root) => {
  for (const select of root.querySelectorAll("select[data-choose]")) {
    const show = () => {
      for (const option of select.options) byId(option.value).hidden = option.value !== select.value;
    };
    select.addEventListener("change", show);
    show();
  }
  for (const button of root.querySelectorAll(".all-columns")) {
    const table = button.parentElement.querySelector("table");
    button.hidden = false;
    button.addEventListener("click", () => {
      button.textContent = table.classList.toggle("whole") ? "Fewer columns" : "All columns";
    });
  }
};
wireTables(document);

// On paper nothing can be unfolded.
(() => {
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.data)")];
    for (const details of opened) details.open = true;
  });
  window.addEventListener("afterprint", () => { for (const details of opened) details.open = false; });
})();

// The values of a mark, on hover, on touch, and by the arrow keys once a chart has the focus.
(() => {
  const root = document.documentElement, tip = byId("tip");
  let marked = null;
  const hide = () => {
    tip.hidden = true;
    if (marked) marked.classList.remove("on");
    marked = null;
  };
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
    const focused = document.activeElement;
    const chart = focused && focused.closest ? focused.closest("svg.chart") : null;
    if (event.key === "Escape") hide();
    if (!chart || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const marks = [...chart.querySelectorAll("[data-tip]:not(.ground)")];
    if (!marks.length) return;
    event.preventDefault();
    const at = marks.indexOf(marked), step = event.key === "ArrowRight" ? 1 : -1;
    show(marks[at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length]);
  });
  document.addEventListener("focusout", hide);
})();
