"use strict";
(() => {
  const table = document.getElementById("rows"), form = document.getElementById("filter");
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  if (!table || !form) return;
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const texts = new Map(rows.map((r) => [r, r.textContent.toLowerCase()]));
  const fields = ["q", "state", "change"].map((n) => form.elements.namedItem(n)).filter(Boolean);
  let sort = "";

  // The state is in the address: #?q=…&sort=-3
  const read = () => new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : "");
  const write = () => {
    const state = new URLSearchParams();
    for (const f of fields) if (f.value) state.set(f.name, f.value);
    if (sort) state.set("sort", sort);
    const text = state.toString();
    history.replaceState(null, "", text ? "#?" + text : "#tasks");
  };
  const valueOf = (row, i) => {
    const cell = row.cells[i];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  };
  const show = () => {
    const value = (n) => (form.elements.namedItem(n) || { value: "" }).value;
    const words = value("q").toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const r of rows) {
      r.hidden = !(words.every((w) => texts.get(r).includes(w)) &&
        (!value("state") || r.dataset.state === value("state")) && (!value("change") || r.dataset.change === value("change")));
      if (!r.hidden) shown++;
    }
    form.querySelector("output").textContent = shown + " of " + rows.length;
    const by = Math.abs(Number(sort)) - 1, sign = sort.startsWith("-") ? -1 : 1;
    heads.forEach((h, i) => i === by ? h.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending") : h.removeAttribute("aria-sort"));
    const order = [...rows];
    if (by >= 0 && by < heads.length) order.sort((a, b) => {
      const x = valueOf(a, by), y = valueOf(b, by);
      return sign * (typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...order);
  };
  const open = () => {
    if (location.hash.startsWith("#?")) {
      const state = read();
      for (const f of fields) f.value = state.get(f.name) || "";
      sort = /^-?\d{1,2}$/.test(state.get("sort") || "") ? state.get("sort") : "";
      show();
      return;
    }
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    target.focus();
    target.scrollIntoView();
  };
  heads.forEach((h, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = h.textContent;
    button.addEventListener("click", () => {
      const key = String(i + 1);
      sort = sort === key ? "-" + key : sort === "-" + key ? "" : key;
      show();
      write();
    });
    h.replaceChildren(button);
  });
  form.addEventListener("input", () => { show(); write(); });
  form.addEventListener("submit", (e) => e.preventDefault());
  addEventListener("hashchange", open);
  form.hidden = false;
  show();
  open();
})();

(() => {
  // A prompt is copied, or at least selected where a browser does not let pages copy.
  for (const box of document.querySelectorAll("details.prompt")) {
    const button = document.createElement("button"), said = document.createElement("output"), text = box.querySelector("pre");
    button.type = "button";
    button.className = "act";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        said.textContent = " Copied.";
      } catch {
        text.focus();
        getSelection().selectAllChildren(text);
        said.textContent = " Selected: copy it with the keyboard.";
      }
    });
    text.before(button, said);
  }
})();
