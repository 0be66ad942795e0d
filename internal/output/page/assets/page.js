"use strict";
(() => {
  const table = document.getElementById("rows"), form = document.getElementById("filter"), grid = document.getElementById("grid");
  // Folds cannot be opened on paper.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const d of folded) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of folded) d.open = false; });
  if (!table || !form) return;
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const texts = new Map(rows.map((r) => [r, r.textContent.toLowerCase()]));
  const fields = ["q", "state", "agent", "dataset", "change"].map((n) => form.elements.namedItem(n)).filter(Boolean);
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
        fields.every((f) => f.name === "q" || !f.value || r.dataset[f.name] === f.value));
      if (!r.hidden) shown++;
    }
    if (grid) { // tasks of rows that are shown, and the agent that is chosen
      const tasks = new Set(rows.filter((r) => !r.hidden).map((r) => r.dataset.row)), names = [...grid.tHead.rows[0].cells];
      for (const r of grid.rows) {
        r.hidden = r.dataset.row !== undefined && !tasks.has(r.dataset.row);
        names.forEach((name, i) => { r.cells[i].hidden = i > 0 && value("agent") !== "" && name.textContent !== value("agent"); });
      }
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

(() => {
  // Search in the logs and the conversation of a trial. Its state is in the address: #t1?find=…&hit=3
  const most = 2000, restore = () => {
    const [id, query] = location.hash.slice(1).split("?");
    const box = query !== undefined && finds.get(id);
    if (!box) return;
    const state = new URLSearchParams(query);
    box.show(state.get("find") || "", Number(state.get("hit")) || 1);
  };
  const finds = new Map();
  for (const trial of document.querySelectorAll("details.trial")) {
    const section = trial.querySelector("div[id]");
    const texts = [...section.querySelectorAll("pre")].filter((p) => !p.closest(".prompt, .beside"));
    if (!texts.length) continue;
    const form = document.createElement("form"), label = document.createElement("label"), field = document.createElement("input"), said = document.createElement("output");
    const button = (text, click) => {
      const b = document.createElement("button");
      b.type = "button";
      b.className = "act";
      b.textContent = text;
      b.addEventListener("click", click);
      return b;
    };
    let hits = [], at = 0, timer = 0;
    const unmark = () => {
      for (const mark of section.querySelectorAll("mark")) {
        const parent = mark.parentNode;
        mark.replaceWith(...mark.childNodes);
        parent.normalize();
      }
      hits = [];
    };
    const mark = (word) => {
      for (const text of texts) {
        const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT), nodes = [];
        while (walker.nextNode()) nodes.push(walker.currentNode);
        for (let node of nodes) {
          for (let i = node.data.toLowerCase().indexOf(word); i >= 0 && hits.length < most; i = node.data.toLowerCase().indexOf(word)) {
            const hit = document.createElement("mark"), found = node.splitText(i);
            node = found.splitText(Math.min(word.length, found.length));
            found.replaceWith(hit);
            hit.append(found);
            hits.push(hit);
          }
        }
      }
    };
    const go = (to) => {
      if (hits.length) {
        hits[at].removeAttribute("aria-current");
        at = (to + hits.length) % hits.length;
        hits[at].setAttribute("aria-current", "true");
        for (let e = hits[at]; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
        hits[at].scrollIntoView({ block: "center" });
      }
      said.textContent = !field.value ? "" : hits.length ? (at + 1) + " of " + hits.length + (hits.length === most ? " or more" : "") : "nothing found";
      const state = new URLSearchParams({ find: field.value, hit: String(at + 1) });
      history.replaceState(null, "", "#" + section.id + (field.value ? "?" + state : ""));
    };
    const find = (to) => {
      clearTimeout(timer);
      unmark();
      at = 0;
      if (field.value) mark(field.value.toLowerCase());
      go(to);
    };
    const later = () => {
      clearTimeout(timer);
      timer = setTimeout(find, 200, 0);
    };
    const open = button("Expand all", () => {
      const folds = [...section.querySelectorAll("details")], all = folds.every((d) => d.open);
      for (const d of folds) d.open = !all;
      open.textContent = all ? "Expand all" : "Collapse all";
    });
    form.className = "find";
    form.setAttribute("role", "search");
    field.type = "search";
    field.autocomplete = "off";
    field.addEventListener("input", later);
    field.addEventListener("keydown", (e) => {
      if (e.key !== "Enter") return;
      e.preventDefault();
      if (hits.length) go(at + (e.shiftKey ? -1 : 1)); else find(0);
    });
    form.addEventListener("submit", (e) => e.preventDefault());
    said.setAttribute("aria-live", "polite");
    label.append("Search in logs and conversation ", field);
    form.append(label, button("Previous", () => go(at - 1)), button("Next", () => go(at + 1)), open, said);
    section.prepend(form);
    finds.set(section.id, { show: (word, hit) => {
      trial.open = true;
      field.value = word;
      find(hit - 1);
    } });
  }
  addEventListener("hashchange", restore);
  restore();
})();
