"""A conversation as a tree, in the browser: variants, changed questions, choices, comparing, deleting, undoing."""

import pytest
from chat import Chat
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect
from rheo import Rheo


@pytest.fixture(scope="module")
def rheo(start_shared) -> Rheo:
    return start_shared([{"id": "echo", "echo": True}])


def ask(chat: Chat, text: str, turns: int) -> None:
    chat.ask(text)
    expect(chat.answers).to_have_count(turns)
    chat.wait("finished")


def try_again(chat: Chat, place: str) -> None:
    chat.answer.get_by_role("button", name="Try again").click()
    expect(place_of(chat.answer)).to_have_text(place)
    chat.wait("finished")


def place_of(message: Locator) -> Locator:
    return message.get_by_test_id("variant-place")


def says(chat: Chat, *questions: str) -> None:
    """These are the questions of the page, and each is answered by its echo."""
    expect(chat.questions.get_by_test_id("message-body")).to_have_text(list(questions))
    expect(chat.answers.get_by_test_id("message-body")).to_have_text(list(questions))


def change(chat: Chat, question: Locator, text: str) -> None:
    question.hover()
    question.get_by_test_id("edit").click()
    form = question.get_by_test_id("revision-input")
    if form.count() == 0:  # without scripts it is a page of its own
        form = chat.page.get_by_test_id("revision-input")
    form.fill(text)
    form.press("Enter") if scripts(chat.page) else chat.page.get_by_role("button", name="Send").click()


def scripts(page: Page) -> bool:
    return page.locator("html.js").count() > 0


@pytest.mark.parametrize("with_scripts", [True, False])
def test_a_whole_tree_is_grown_walked_compared_cut_and_mended(
    rheo: Rheo, browser: Browser, complaints, with_scripts: bool
) -> None:
    context = browser.new_context(java_script_enabled=with_scripts)
    context.on("page", complaints.watch)
    chat = Chat(context.new_page())
    page = chat.page
    chat.open(rheo.url)
    ask(chat, "Tea or coffee?", 1)
    try_again(chat, "2/2")
    try_again(chat, "3/3")
    ask(chat, "And cake?", 2)
    says(chat, "Tea or coffee?", "And cake?")
    # The first question in other words: a branch of its own.
    change(chat, chat.questions.first, "Tea or water?")
    says(chat, "Tea or water?")
    chat.wait("finished")
    expect(place_of(chat.questions.first)).to_have_text("2/2")
    # Back to the first, as it was left; then another answer in it, which nothing follows.
    chat.questions.first.get_by_role("button", name="Previous variant").click()
    says(chat, "Tea or coffee?", "And cake?")
    expect(place_of(chat.answers.first)).to_have_text("3/3")
    chat.answers.first.get_by_role("button", name="Previous variant").click()
    says(chat, "Tea or coffee?")
    expect(place_of(chat.answers.first)).to_have_text("2/3")
    page.reload()
    says(chat, "Tea or coffee?")
    expect(place_of(chat.answers.first)).to_have_text("2/3")
    expect(place_of(chat.questions.first)).to_have_text("1/2")
    # Compare, and choose there.
    chat.questions.first.get_by_test_id("compare").click()
    columns = page.get_by_test_id("variant")
    expect(columns).to_have_count(2)
    expect(columns.nth(1).locator("ins")).to_have_text("water")
    expect(columns.nth(1).locator("del")).to_have_text("coffee")
    columns.nth(1).get_by_role("button", name="Show in the conversation").click()
    says(chat, "Tea or water?")
    # Delete that branch: the other is shown, nothing of this one is left but a way back.
    chat.questions.first.hover()
    chat.questions.first.get_by_test_id("delete-branch").click()
    says(chat, "Tea or coffee?")
    expect(place_of(chat.questions.first)).to_have_count(0)
    page.get_by_test_id("undo").click()
    says(chat, "Tea or water?")
    expect(place_of(chat.questions.first)).to_have_text("2/2")
    expect(page.get_by_test_id("undo")).to_have_count(0)
    context.close()


def test_by_keyboard_alone_and_the_focus_stays_where_the_work_is(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "One", 1)
    try_again(chat, "2/2")
    try_again(chat, "3/3")
    chat.answer.get_by_role("button", name="Previous variant").focus()
    page.keyboard.press("Enter")
    expect(place_of(chat.answer)).to_have_text("2/3")
    expect(chat.answer.get_by_role("button", name="Previous variant")).to_be_focused()
    page.keyboard.press("Enter")
    expect(place_of(chat.answer)).to_have_text("1/3")
    expect(chat.answer.get_by_role("button", name="Next variant")).to_be_focused()
    chat.questions.first.get_by_test_id("edit").focus()
    page.keyboard.press("Enter")
    box = page.get_by_test_id("revision-input")
    expect(box).to_be_focused()
    expect(box).to_have_value("One")
    assert box.evaluate("box => box.selectionStart") == len("One")
    expect(chat.questions.first.get_by_test_id("message-actions")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(box).to_have_count(0)
    expect(chat.questions.first.get_by_test_id("edit")).to_be_focused()
    page.keyboard.press("Enter")
    expect(box).to_be_focused()
    box.fill("Two")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("lines")
    page.keyboard.press("Enter")
    expect(chat.questions.get_by_test_id("message-body")).to_have_text(["Two\nlines"])
    chat.wait("finished")
    expect(chat.box).to_be_focused()
    chat.answer.get_by_test_id("delete-branch").focus()
    page.keyboard.press("Enter")
    expect(chat.answers).to_have_count(0)
    expect(page.get_by_test_id("undo")).to_be_focused()
    page.keyboard.press("Enter")
    expect(chat.answers).to_have_count(1)
    expect(chat.box).to_be_focused()


def test_the_second_half_of_a_double_click_on_edit_sends_nothing(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "A question", 1)
    # As soon as the form is there, as where Send has come under the pointer.
    page.evaluate("""() => document.addEventListener("htmx:after:swap", () => {
      const send = document.querySelector(".revision button");
      send?.click();
      document.documentElement.dataset.clicked = send ? "Send" : "nothing";
    }, {once: true})""")
    chat.questions.first.hover()
    chat.questions.first.get_by_test_id("edit").click()
    expect(page.locator("html")).to_have_attribute("data-clicked", "Send")
    expect(page.get_by_test_id("revision-input")).to_be_focused()
    page.wait_for_timeout(600)  # longer than a double click takes: what is clicked now is meant
    page.get_by_role("button", name="Send", exact=True).first.click()
    expect(place_of(chat.questions.first)).to_have_text("2/2")


def test_a_question_without_an_answer_can_be_answered_again(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "Alone", 1)
    chat.answer.get_by_test_id("delete-branch").click()
    expect(chat.answers).to_have_count(0)
    page.get_by_role("button", name="Answer again").click()
    expect(chat.answers).to_have_count(1)
    chat.wait("finished")
    says(chat, "Alone")
    expect(page.get_by_role("button", name="Answer again")).to_be_hidden()
    expect(page.get_by_test_id("undo")).to_have_count(0)
    page.reload()
    says(chat, "Alone")


def test_the_last_message_of_all_can_be_deleted_and_the_chat_begins_anew(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "Gone soon", 1)
    chat.questions.first.hover()
    chat.questions.first.get_by_test_id("delete-branch").click()
    expect(page.get_by_test_id("message")).to_have_count(0)
    ask(chat, "Anew", 1)
    says(chat, "Anew")


def test_another_tab_keeps_its_branch_and_learns_of_new_variants(
    rheo: Rheo, chat: Chat, context: BrowserContext
) -> None:
    chat.open(rheo.url)
    ask(chat, "First", 1)
    ask(chat, "Second", 2)
    second = Chat(context.new_page()).open(chat.page.url)
    says(second, "First", "Second")
    change(chat, chat.questions.first, "Other")
    says(chat, "Other")
    expect(place_of(second.questions.first)).to_have_text("1/2")
    says(second, "First", "Second")
    chat.wait("finished")
    second.ask("Third")
    says(second, "First", "Second", "Third")
    says(chat, "Other")
    ask(chat, "More", 2)
    says(chat, "Other", "More")
    says(second, "First", "Second", "Third")


def test_a_question_that_is_being_changed_is_not_swept_away_by_news(
    rheo: Rheo, chat: Chat, context: BrowserContext
) -> None:
    chat.open(rheo.url)
    ask(chat, "First", 1)
    second = Chat(context.new_page()).open(chat.page.url)
    second.questions.first.hover()
    second.questions.first.get_by_test_id("edit").click()
    box = second.page.get_by_test_id("revision-input")
    box.fill("Half of a")
    ask(chat, "Second", 2)
    second.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(box).to_have_value("Half of a")
    second.page.get_by_role("link", name="Cancel").click()
    says(second, "First", "Second")


def test_a_refused_change_is_told_beside_it_and_kept(start_rheo, chat: Chat, page: Page, complaints) -> None:
    complaints.expected.append("422")
    rheo: Rheo = start_rheo([{"id": "echo", "echo": True}], message_chars=20)
    chat.open(rheo.url)
    ask(chat, "Short", 1)
    change(chat, chat.questions.first, "x" * 21)
    form = chat.questions.first.get_by_test_id("revision")
    expect(form.get_by_role("alert")).to_contain_text("at most 20")
    expect(form.get_by_test_id("revision-input")).to_have_value("x" * 21)


def test_a_link_to_a_message_on_a_hidden_branch_leads_there(rheo: Rheo, chat: Chat, page: Page) -> None:
    chat.open(rheo.url)
    ask(chat, "First", 1)
    ask(chat, "Second", 2)
    hidden = chat.answer.get_attribute("id")
    change(chat, chat.questions.first, "Other")
    says(chat, "Other")
    chat.wait("finished")
    there = page.url
    page.goto("about:blank")
    page.goto(f"{there}#{hidden}")
    says(chat, "First", "Second")
    page.goto(there)
    says(chat, "Other")
    page.goto(f"{there}#message-unknown")
    says(chat, "Other")


def test_another_variant_comes_in_the_place_of_the_first_under_the_pointer(
    rheo: Rheo, chat: Chat, page: Page
) -> None:
    page.set_viewport_size({"width": 1200, "height": 600})
    chat.open(rheo.url)
    ask(chat, "Short", 1)
    for number in range(8):
        ask(chat, f"Below it {number}", number + 2)
    change(chat, chat.questions.first, "\n".join(["Long"] * 12))
    chat.wait("finished")
    expect(chat.questions).to_have_count(1)
    back = chat.questions.first.get_by_role("button", name="Previous variant")
    back.scroll_into_view_if_needed()
    box = back.bounding_box()
    back.click()
    expect(chat.questions).to_have_count(9)
    forth = chat.questions.first.get_by_role("button", name="Next variant")
    after = forth.bounding_box()
    assert box
    assert after
    expect(forth).to_be_in_viewport()
    reachable = page.evaluate("scrollY") > 0
    assert not reachable or abs(after["y"] - box["y"]) <= 2


def test_the_way_to_other_variants_stays_in_its_place_when_an_answer_ends(start_rheo, chat: Chat) -> None:
    rheo: Rheo = start_rheo([{"id": "words", "steps": ["Said. ", {"sleep_s": 60}]}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("Said.")
    chat.stop.click()
    chat.wait("stopped")
    chat.answer.get_by_role("button", name="Try again").click()
    chat.wait_for_text("Said.")
    chat.wait("running")
    running = below_text(chat)
    chat.stop.click()
    chat.wait("stopped")
    note = chat.answer.locator(".message-note").evaluate("note => note.offsetHeight + 8")
    ended = below_text(chat)
    assert ended[0] == pytest.approx(running[0], abs=1)
    assert ended[1] - note == pytest.approx(running[1], abs=1)


def below_text(chat: Chat) -> tuple[float, float]:
    """How far to the right, and below the text of the answer, its ‹ is."""
    button = chat.answer.get_by_role("button", name="Previous variant").bounding_box()
    text = chat.answer.get_by_test_id("message-body").bounding_box()
    assert button
    assert text
    return button["x"], button["y"] - text["y"] - text["height"]


def test_changing_a_question_while_it_is_answered_and_walking_between_both(
    start_rheo, chat: Chat, page: Page
) -> None:
    words = [f"w{number} " for number in range(400)]
    rheo: Rheo = start_rheo([{"id": "words", "delay_ms": 50, "steps": words}])
    chat.open(rheo.url).ask("Go")
    chat.wait_for_text("w3 ")
    change(chat, chat.questions.first, "Go on")
    expect(chat.questions.first.get_by_test_id("message-body")).to_have_text("Go on")
    expect(chat.answers).to_have_count(1)
    expect(chat.answer.get_by_text("Next in line…")).to_be_visible()
    chat.questions.first.get_by_role("button", name="Previous variant").click()
    chat.wait_for_text("w8 ")
    chat.stop.click()
    chat.wait("stopped")
    kept = chat.text().split()
    assert kept == "".join(words).split()[: len(kept)]
    chat.questions.first.get_by_role("button", name="Next variant").click()
    chat.wait_for_text("w3 ")
    chat.stop.click()
    chat.wait("stopped")
    assert chat.text().split() == "".join(words).split()[: len(chat.text().split())]
