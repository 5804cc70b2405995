// Before the first paint: tells the style sheet that scripts run, and which colours the person chose.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("rheo-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's colours it is.
}
