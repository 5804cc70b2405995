"""Texts in five languages and in code, made by rule: words as frequent as they are in what people write."""

import random
from itertools import accumulate

_SYLLABLES = {
    "en": "the and ing er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le",
    "fr": "é è ç à ou le de es en re nt on er la ti ui ne se qu ai it me is ur tion œ ê â te ra",
    "el": "και το τη να με ση σα λο γο ρα κα τέ μά νε στ πο ού εί ές ής ός ών αν θά φι χρ ψη ξε",
}
_KANJI = (
    "日一国人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先"
    "名川千水半男西電校語土木聞食車何南万毎白天母火右読友左休父雨京都旅作業理解説明設定関数実例情報"
)
_KANA = "の は を に が と で です ます して から まで こと ない ください テスト サーバー データ"
_HANZI = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
    "用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
    "日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政"
    "美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员"
    "解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件"
    "计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象"
    "完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运"
)
_HANGUL = (
    "가 나 다 라 마 바 사 아 자 차 하 고 노 도 로 모 보 소 오 조 구 누 두 루 무 부 수 우 주 기 "
    "니 디 리 미 비 시 이 지 한 글 말 책 물 집 길 날 밤 서울 호텔 예약 여행 날씨 서버 시험 설명"
)
_PARTICLES = ("을", "를", "이", "가", "은", "는", "에서", "으로", "하고", "합니다", "해요", "")
_CODE = (
    "def {a}({b}):\n    return {b} + {n}",
    "for (int {a} = 0; {a} < {n}; ++{a}) {{ {b}->{c}(); }}",
    "const {a}_{b} = await fetch(`/{c}/{n}`);",
    "SELECT {a}, {b} FROM {c} WHERE {a} = '{n}'",
    "std::vector<{a}> {b}; // C++ {n}",
)
LANGUAGES = ("en", "en", "en", "fr", "el", "ja", "zh", "ko")


class Corpus:
    """Makes texts; the same seed makes the same ones."""

    def __init__(self, seed: int = 7, words: int = 20_000) -> None:
        self.random = random.Random(seed)
        self._words = {language: self._vocabulary(language, words) for language in sorted(set(LANGUAGES))}
        # The n-th word comes as often as 1/n says, as in any language.
        self._weights = list(accumulate(1 / (number + 2) for number in range(words)))

    def text(self, language: str, words: int) -> str:
        """A text of so many words, in sentences."""
        chosen = self.random.choices(self._words[language], cum_weights=self._weights, k=words)
        if language in ("ja", "zh"):
            return "。".join("".join(chosen[at : at + 9]) for at in range(0, words, 9)) + "。"
        lines = (" ".join(chosen[at : at + 14]).capitalize() for at in range(0, words, 14))
        return ". ".join(lines) + "."

    def code(self) -> str:
        """A block of code, as answers have it."""
        lines = []
        for line in self.random.choices(_CODE, k=self.random.randint(1, 6)):
            a, b, c = self.random.choices(self._words["en"], cum_weights=self._weights, k=3)
            lines.append(line.format(a=a, b=b, c=c, n=self.random.randint(0, 999)))
        return "```\n" + "\n".join(lines) + "\n```"

    def _vocabulary(self, language: str, words: int) -> list[str]:
        return [self._word(language, number) for number in range(words)]

    def _word(self, language: str, number: int) -> str:
        # Frequent words are short.
        length = 1 if number < 30 else 2 if number < 1500 else self.random.randint(2, 5)
        pick = self.random.choices
        if language == "ja":
            return "".join(pick(_KANJI, k=min(length, 3))) + self.random.choice(_KANA.split())
        if language == "zh":
            return "".join(pick(_HANZI, k=min(length, 3)))
        if language == "ko":
            return "".join(pick(_HANGUL.split(), k=length)) + self.random.choice(_PARTICLES)
        return "".join(pick(_SYLLABLES[language].split(), k=length))
