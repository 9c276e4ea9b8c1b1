// Light or dark, before the first paint: a script of its own in the head, as inline ones aren't allowed. What the user
// chose by the button wins over what the system prefers.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem("tern.theme");
    } catch {
      return null;  // storage is switched off
    }
  };
  const apply = () => {
    root.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("storage", apply);
  addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-theme-toggle]")) return;
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("tern.theme", next);
    } catch {
      // It holds for this page alone.
    }
    root.dataset.theme = next;
  });
})();
