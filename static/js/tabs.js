// Tabs tell each other what is new; a page that was out of sight asks for it when it is seen again.

const main = document.getElementById("main");
const channel = "BroadcastChannel" in window ? new BroadcastChannel("rheo") : null;
const leaf = () => document.getElementById("leaf");
let behind = false;
let asked = null;

function refresh() {
  const form = document.getElementById("composer");
  // A turn that is under way brings its own news; what came before it is asked for after it.
  behind = document.hidden || form.matches(".htmx-request") || asked !== null;
  if (behind) return;
  asked = leaf().value;
  const query = new URLSearchParams({
    conversation: form.getAttribute("action").match(/conversations\/(\w+)\/messages$/)?.[1] ?? "",
    leaf: asked,
    state: document.getElementById(`message-${asked}`)?.dataset.state ?? "",
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
  if (underWay || asked !== leaf().value) event.preventDefault();
  behind ||= underWay;
});

document.addEventListener("htmx:finally:request", ({ target, detail: { ctx } }) => {
  if (target === main) asked = null;
  else if (ctx.request.method === "POST" && ctx.response?.raw.ok) channel?.postMessage("news");
  if (behind) refresh();
});

document.addEventListener("htmx:sse:close", () => channel?.postMessage("news"));
