"""One whole conversation with the packaged model, in the browser, from a cold start."""

from chat import Chat
from playwright.sync_api import Page, expect
from rheo import Rheo

LOADING_S = 240
ANSWER_S = 120
# A short answer streams faster than one asks for its state.
STATES = """() => {
  window.states = [];
  new MutationObserver(() => {
    const state = document.querySelector('[data-role="assistant"]')?.dataset.state;
    if (state && state !== states.at(-1)) states.push(state);
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-state"] });
}"""


def test_two_turns_with_the_real_model_stream_and_survive_a_reload(
    start_rheo, chat: Chat, page: Page, tmp_path
) -> None:
    rheo: Rheo = start_rheo(max_tokens=48, temperature=0)
    chat.open(rheo.url)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "loading")
    page.evaluate(STATES)
    chat.ask("What is the capital of France?")
    chat.wait("finished", timeout_s=LOADING_S)
    expect(page.get_by_test_id("model-state")).to_have_attribute("data-state", "ready")
    assert page.evaluate("states") == ["queued", "running", "finished"]
    assert "Paris" in chat.text()
    chat.ask("And which river flows through it?")
    expect(chat.answers).to_have_count(2)
    chat.wait("finished", timeout_s=ANSWER_S)
    said = [chat.text(answer) for answer in chat.answers.all()]
    assert all(text.strip() for text in said)
    page.reload()
    assert [chat.text(answer) for answer in chat.answers.all()] == said
    assert [chat.text(question) for question in chat.questions.all()] == [
        "What is the capital of France?",
        "And which river flows through it?",
    ]
