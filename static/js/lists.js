// The lists: tick all that is shown, and with Shift all between two.
const boxes = () => [...document.querySelectorAll('.rows input[name="conversation"]')];
const all = document.querySelector("[data-select-all]");
let last = null;

all?.addEventListener("change", () => {
  for (const box of boxes()) box.checked = all.checked;
});

document.addEventListener("click", (event) => {
  if (!event.target.matches('.rows input[name="conversation"]')) return;
  if (event.shiftKey && last?.isConnected) {
    const [from, to] = [boxes().indexOf(last), boxes().indexOf(event.target)].sort((one, other) => one - other);
    for (const box of boxes().slice(from, to + 1)) box.checked = event.target.checked;
  }
  last = event.target;
});
