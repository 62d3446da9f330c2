"use strict";

// A link to a task opens it. A page that is served while the session runs asks for a newer one, and
// stays as it is when nobody answers any more.
const opened = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === "DETAILS") target.open = true;
};
window.addEventListener("hashchange", opened);
opened();

const live = document.querySelector("[data-refresh]");
if (live) {
  const timer = setInterval(async () => {
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (answer.ok) location.reload();
    } catch {
      clearInterval(timer);
      live.textContent = "The session has ended.";
    }
  }, 1000 * live.dataset.refresh);
}
