// Before the first paint: tells the style sheet that scripts run, and which colours the person chose; and the
// server in which time zone this browser is, for the days of its lists.
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("rheo-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's colours it is.
}
// Intl reads its tables when it is first used: 16 to 45 ms before the first paint, where Temporal takes half of one.
const zone = `rheo_zone=${globalThis.Temporal?.Now.timeZoneId() ?? Intl.DateTimeFormat().resolvedOptions().timeZone}`;
if (!document.cookie.includes(zone)) {
  document.cookie = `${zone};path=/;max-age=31536000;samesite=lax`;
  document.documentElement.toggleAttribute("data-moved", document.cookie.includes(zone));
}
