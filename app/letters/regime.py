"""The files of the letter: those that the service brings, each replaced by the lender's own of the same name.

* ``{regime}.{language}.txt``: the letter
* ``{language}.yaml``: the language; ``{regime}.{language}.yaml``: what the letters of a regime say otherwise
* ``letter.css``: how the page looks
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from app.errors import TemplateFaulty
from app.letters.language import Language
from app.letters.markup import to_html, to_text
from app.letters.notice import NAMES, Notice
from app.letters.template import Template
from app.questions.answers import plain
from app.registry.form_sentences import sentence_of
from app.registry.printable import unprintable_faults
from app.registry.safe_yaml import read_yaml
from app.settings import Settings

SHIPPED = files("app.letters") / "templates"
CSS = "letter.css"


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The templates of the letters of one regime, by language, and their style sheet."""

    regime: str
    default: str
    """The language for clients that ask for none of those there are."""
    letters: Mapping[str, Template]
    languages: Mapping[str, Language]
    css: str

    @classmethod
    def of(cls, settings: Settings) -> "Templates":
        """The templates of the regime that the settings name. Raises `TemplateFaulty` as `read` does."""
        return cls.read(settings.notice_regime, settings.notice_dir, settings.notice_language)

    @classmethod
    def read(cls, regime: str, directory: Path | None, default: str) -> "Templates":
        """The templates of a regime. A file in the lender's `directory` replaces the service's file of the same name.

        Parameters
        ----------
        default : language of letters where a client prefers none; the regime must have a letter in this language

        Raises
        ------
        TemplateFaulty : a file has a fault, or the regime has no letter in `default`; the error names the file
        """
        content = {one.name: one.read_text(encoding="utf-8") for one in SHIPPED.iterdir() if one.is_file()}
        if directory is not None:
            try:
                content |= {
                    one.name: one.read_text(encoding="utf-8") for one in sorted(directory.iterdir()) if one.is_file()
                }
            except (OSError, UnicodeDecodeError) as error:
                raise TemplateFaulty(
                    f"The letters in {directory} (RECOURSE_NOTICE_DIR) cannot be read: {error}"
                ) from error
        names = sorted(name for name in content if name.startswith(f"{regime}.") and name.endswith(".txt"))
        tags = [name.split(".")[1] for name in names]
        if not tags:
            raise TemplateFaulty(
                f"There is no letter {regime}.en.txt, nor one of {regime} in another language; "
                f"RECOURSE_NOTICE_REGIME is {regime}."
            )
        if default not in tags:
            raise TemplateFaulty(f"There is no letter {regime}.{default}.txt; RECOURSE_NOTICE_LANGUAGE is {default}.")
        letters, languages = {}, {}
        for name, tag in zip(names, tags, strict=True):
            if f"{tag}.yaml" not in content:
                raise TemplateFaulty(f"{name} needs {tag}.yaml, the phrases of its language.")
            own = {one: content[one] for one in (f"{tag}.yaml", f"{regime}.{tag}.yaml") if one in content}
            languages[tag] = _language(tag, own)
            letters[tag] = Template(content, name, NAMES)
        return cls(regime=regime, default=default, letters=letters, languages=languages, css=content[CSS])

    def language(self, accept: str) -> str:
        """The language with a letter that the header ``Accept-Language`` prefers; `default` if there is none."""
        tags = {tag.lower(): tag for tag in self.letters}
        for wanted in preferred(accept):
            if found := tags.get(wanted) or tags.get(wanted.partition("-")[0]):
                return found
        return self.default

    def text(self, notice: Notice) -> str:
        """The letter `notice` as plain text."""
        return to_text(self._filled(notice))

    def html(self, notice: Notice) -> str:
        """The letter `notice` as an HTML page that prints on A4."""
        return to_html(self._filled(notice), language=notice.language, css=self.css)

    def _filled(self, notice: Notice) -> str:
        return self.letters[notice.language].fill(plain(notice))


def preferred(accept: str) -> list[str]:
    """The values in a header such as ``Accept-Language``, in lower case; the value with the highest ``q`` is first.

    Values with ``q=0`` are left out.
    """
    found: list[tuple[float, str]] = []
    for part in accept.lower().split(","):
        value, *parameters = (piece.strip() for piece in part.split(";"))
        weight = next((piece.removeprefix("q=") for piece in parameters if piece.startswith("q=")), "1")
        try:
            found.append((float(weight), value))
        except ValueError:
            continue  # a weight that is no number wants nothing
    return [value for weight, value in sorted(found, key=lambda one: -one[0]) if weight > 0.0 and value]


def _language(tag: str, texts: Mapping[str, str]) -> Language:
    """The language of files by name, of which each replaces keys of those before it."""
    name, stated = "", dict[str, object]()
    try:
        for name, text in texts.items():
            data = read_yaml(text.encode())
            if not isinstance(data, dict):
                raise TemplateFaulty(f"{name} must be a mapping of names to values.")
            if hidden := unprintable_faults(data):
                raise TemplateFaulty(f"{name}: {hidden[0].pointer} {hidden[0].detail}.")
            stated |= data
        return TypeAdapter(Language).validate_python({**stated, "tag": tag})
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))} {sentence_of(fault)}" for fault in error.errors()]
        raise TemplateFaulty(f"{' and '.join(texts)}: {'; '.join(faults)}.") from error
    except ValueError as error:
        raise TemplateFaulty(f"{name}: {error}.") from error
