"""Templates of letters: Jinja2, in a sandbox, with the names of a letter and nothing else."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from jinja2 import DictLoader, StrictUndefined, TemplateError, meta, nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.errors import TemplateFaulty
from app.letters.notice import Lender
from app.registry.printable import one_line

LENDER = "RECOURSE_LENDER_"
"""How the settings of the sender begin."""


class Template:
    """The template of a letter; it is checked when it is read.

    Parameters
    ----------
    files : texts of all templates by file name; one template may extend another
    name : file name of this template
    names : names that the template may use

    Raises
    ------
    TemplateFaulty : the template has a fault, or uses a name that is not among `names`; the error has file and line
    """

    def __init__(self, files: Mapping[str, str], name: str, names: Collection[str]) -> None:
        # No autoescape: the filled template is text, which `app.letters.markup` escapes as a whole.
        environment = ImmutableSandboxedEnvironment(
            loader=DictLoader(dict(files)), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
            finalize=_in_line,
        )  # fmt: skip
        self._name = name
        self.used = frozenset(_used(environment, files, name, names))
        """What the letter states: names of the letter, and of fields of `lender`."""
        self._template = environment.get_template(name)

    def missing(self, lender: Lender) -> tuple[str, ...]:
        """Settings about the sender, such as `RECOURSE_LENDER_NAME`, that are empty although the letter states them.

        Every letter states name and address. Settings with a default may be empty.
        """
        stated = (f.name for f in fields(lender) if f.name in self.used | {"name", "address"} and f.default is MISSING)
        return tuple(f"{LENDER}{name.upper()}" for name in stated if not getattr(lender, name))

    def fill(self, values: Mapping[str, Any]) -> str:
        """The template, filled with values.

        In the values, line breaks are replaced by spaces, and unprintable characters by U+FFFD.

        Raises
        ------
        TemplateFaulty : an expression of the template fails with these values
        """
        try:
            return self._template.render(values)
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise TemplateFaulty(f"{self._name}: {error}.") from error


def _in_line(value: object) -> str:
    return "" if value is None else one_line(str(value))


def _used(
    environment: ImmutableSandboxedEnvironment, files: Mapping[str, str], name: str, names: Collection[str]
) -> Iterator[str]:
    """The names, and fields of the lender, in a file and in those that it extends or includes.

    The files are checked on the way. What one of them sets, all of them may name.
    """
    trees = dict(_read(environment, files, name))
    known = {"loop", "super"}
    for tree in trees.values():
        known |= {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
        known |= {macro.name for macro in tree.find_all(nodes.Macro)}
    _check_use(trees)
    for file, tree in trees.items():
        parts = [node for node in tree.find_all(nodes.Getattr) if not _is(node.node, "loop")]
        said = {(node.name, node.lineno) for node in tree.find_all(nodes.Name)} | {
            (node.attr, node.lineno) for node in parts
        }
        for word, line in sorted(said, key=lambda one: one[1]):
            if word not in names and word not in known:
                raise TemplateFaulty(f"{file}: line {line} names {word}; there are {', '.join(sorted(names))}.")
        yield from (node.name for node in tree.find_all(nodes.Name))
        yield from (node.attr for node in parts if _is(node.node, "lender"))


def _check_use(trees: Mapping[str, nodes.Template]) -> None:
    """Check that something reads each name that a file sets, and that what a file extends has each of its blocks.

    Jinja says nothing of either, and what a lender's file meant by it would be missing from every letter.
    """
    read = {node.name for tree in trees.values() for node in tree.find_all(nodes.Name) if node.ctx == "load"}
    for file, tree in trees.items():
        for one in tree.find_all(nodes.Assign):
            for node in (one.target, *one.target.find_all(nodes.Name)):
                if isinstance(node, nodes.Name) and node.name not in read:
                    raise TemplateFaulty(f"{file}: line {node.lineno} sets {node.name}, which no letter names.")
        extended = [str(other) for other in meta.find_referenced_templates(tree)]
        if not any(isinstance(node, nodes.Extends) for node in tree.body):
            continue
        blocks = {block.name for name in _reached(trees, extended) for block in trees[name].find_all(nodes.Block)}
        inner = {one.name for block in tree.find_all(nodes.Block) for one in block.find_all(nodes.Block)}
        for block in tree.find_all(nodes.Block):
            if block.name not in blocks | inner:
                raise TemplateFaulty(
                    f"{file}: line {block.lineno} fills the block {block.name}, which {', '.join(extended)} does not "
                    f"have; there are {', '.join(sorted(blocks))}."
                )


def _reached(trees: Mapping[str, nodes.Template], files: Sequence[str]) -> Iterator[str]:
    """The files, and those that they extend or include."""
    for file in files:
        yield file
        yield from _reached(trees, [str(other) for other in meta.find_referenced_templates(trees[file])])


def _read(
    environment: ImmutableSandboxedEnvironment, files: Mapping[str, str], name: str
) -> Iterator[tuple[str, nodes.Template]]:
    """A file and those that it extends or includes, by name."""
    if name not in files:
        raise TemplateFaulty(f"There is no file {name}, which a letter extends or includes.")
    try:
        tree = environment.parse(files[name], filename=name)
    except TemplateSyntaxError as error:
        raise TemplateFaulty(f"{name}: line {error.lineno}: {error.message}") from error
    yield name, tree
    for other in meta.find_referenced_templates(tree):
        yield from _read(environment, files, str(other))


def _is(node: nodes.Node, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.name == name
