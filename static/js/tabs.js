// Tabs tell each other what is new; a page that was out of sight asks for it when it is seen again.
// What only asks, although it is posted, is marked as quiet.

const main = document.getElementById("main");
const channel = "BroadcastChannel" in window ? new BroadcastChannel("rheo") : null;
const leaf = () => document.getElementById("leaf");
const forks = () => Array.from(document.querySelectorAll(".variants"), ({ dataset }) => dataset.place).join(" ");
// A question that is being changed must not be swept away by news; they come when it is sent or left.
const changing = () => document.querySelector(".revision") !== null;
let behind = false;
let asked = null;

function refresh() {
  const form = document.getElementById("composer");
  // A turn that is under way brings its own news; what came before it is asked for after it.
  behind = document.hidden || form.matches(".htmx-request") || asked !== null || changing();
  if (behind) return;
  asked = leaf().value;
  const query = new URLSearchParams({
    conversation: form.getAttribute("action").match(/conversations\/(\w+)\/messages$/)?.[1] ?? "",
    leaf: asked,
    state: document.getElementById(`message-${asked}`)?.dataset.state ?? "",
    forks: forks(),
    through: document.getElementById("through")?.value ?? "",
  });
  htmx.ajax("GET", `${main.dataset.refresh}?${query}`, { source: main, target: main, swap: "none" });
}

channel?.addEventListener("message", refresh);
// The stream of an answer that is gone says so: then its whole conversation may be.
document.addEventListener("done", ({ detail }) => detail.data === "gone" && refresh());
document.addEventListener("visibilitychange", () => document.hidden || refresh());

// What was asked for before the page went on is old by now.
main.addEventListener("htmx:before:swap", (event) => {
  if (event.target !== main) return;
  // A turn that is under way may be in it already, and would come a second time with its own answer.
  const underWay = document.getElementById("composer").matches(".htmx-request");
  if (underWay || changing() || asked !== leaf().value) event.preventDefault();
  behind ||= underWay || changing();
});

document.addEventListener("htmx:finally:request", ({ target, detail: { ctx } }) => {
  if (target === main) asked = null;
  else if (ctx.request.method === "POST" && ctx.response?.raw.ok && !ctx.sourceElement.closest("[data-quiet]")) channel?.postMessage("news");
  if (behind) refresh();
});
// Not till now did the server learn in which time zone this browser is: the days of the list may be others.
const offset = document.getElementById("older").dataset.offset;
if ("moved" in document.documentElement.dataset && Number(offset) !== -new Date().getTimezoneOffset()) refresh();
document.addEventListener("rheo:cancel", () => behind && refresh());

document.addEventListener("htmx:sse:close", () => channel?.postMessage("news"));
