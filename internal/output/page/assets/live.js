"use strict";
(() => {
  const every = 3000, mine = document.querySelector('meta[name="version"]').content, status = document.getElementById("live");
  const busy = () => document.hidden || String(getSelection()) !== "" || /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
  const look = async () => {
    try {
      const answer = await fetch(location.href.split("#")[0], { method: "HEAD", cache: "no-store" });
      const now = answer.headers.get("ETag");
      if (answer.ok && now !== mine) {
        if (!busy()) return location.reload();
        status.textContent = "There is something new: reload this page.";
      }
    } catch {
      status.textContent = "rollout view has ended: this page stays as it is.";
    }
    setTimeout(look, every);
  };
  setTimeout(look, every);
})();
