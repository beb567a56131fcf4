#!/usr/bin/env python3
"""List the library's public API, and hold docs/public-api.txt against it.

    scripts/public_api.py          fails if the file differs from the code
    scripts/public_api.py --write  writes the file

One line an item, with its signature, from rustdoc's JSON. Blanket implementations and those of auto traits are left
out, and so is what isn't documented. Needs nothing but Python and the stable compiler.
"""

import difflib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTING = ROOT / "docs" / "public-api.txt"
# Cargo runs this script in the place of rustdoc if this is set.
AS_RUSTDOC = "EVERSEEN_AS_RUSTDOC"


def main():
    if rustdoc := os.environ.get(AS_RUSTDOC):
        # JSON is not stable yet. The stable compiler writes it if it takes itself for a nightly one. Were that said to
        # all of cargo, build scripts would see it too, and half of the dependencies were built again.
        os.environ["RUSTC_BOOTSTRAP"] = "1"
        os.execvp(rustdoc, [rustdoc, *sys.argv[1:]])
    if sys.argv[1:] not in ([], ["--write"]):
        sys.exit(__doc__)
    listing = "".join(f"{line}\n" for line in Api(crate()).lines())
    if sys.argv[1:]:
        LISTING.write_text(listing)
        return
    held = LISTING.read_text() if LISTING.exists() else ""
    if held != listing:
        name = str(LISTING.relative_to(ROOT))
        old, new = held.splitlines(), listing.splitlines()
        print(*difflib.unified_diff(old, new, name, "the code", n=0, lineterm=""), sep="\n")
        sys.exit(f"\nThe public API is not what {name} says. If it should change, run `scripts/public_api.py --write`.")


def crate():
    """What rustdoc says of the library, as JSON."""
    environment = os.environ | {AS_RUSTDOC: os.environ.get("RUSTDOC", "rustdoc"), "RUSTDOC": __file__}
    cargo = ["cargo", "rustdoc", "-q", "-p", "everseen", "--lib", "--locked"]
    flags = ["-Z", "unstable-options", "--output-format", "json"]
    subprocess.run([*cargo, "--", *flags], cwd=ROOT, env=environment, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
    return json.loads((ROOT / target / "doc" / "everseen.json").read_text())


class Api:
    """The lines for one crate."""

    # What has no path in a signature: the prelude.
    PRELUDE = {"Option", "Vec", "String", "Box", "ToOwned", "Iterator", "IntoIterator", "AsRef", "Into"}
    PRELUDE |= {"From", "Default", "Clone", "Copy", "PartialEq", "Eq", "PartialOrd", "Ord", "Drop", "Send", "Sync"}
    PRELUDE |= {"Sized", "Fn", "FnMut", "FnOnce", "ToString"}

    def __init__(self, crate):
        self.index, self.paths, self.root = crate["index"], crate["paths"], crate["root"]
        # Of each public item of the crate, the path in it by which its user names it.
        self.names = {}
        self.name_all(self.root, "")

    def lines(self):
        return self.module(self.root, "")

    def inner(self, id):
        """The kind of an item, and what is said about it."""
        [(kind, inner)] = self.index[str(id)]["inner"].items()
        return kind, inner

    def members(self, id, path):
        """The items of a module, and those that it re-exports: each with its kind and its path."""
        for item in self.inner(id)[1]["items"]:
            kind, inner = self.inner(item)
            if kind == "use":
                yield "use", inner["id"], path + inner["name"]
            else:
                yield kind, item, path + self.index[str(item)]["name"]

    def name_all(self, id, path):
        """Names the items of a module, those of its modules first: an item that is there and re-exported is there."""
        members = list(self.members(id, path))
        for kind, item, name in members:
            if kind == "module":
                self.name_all(item, f"{name}::")
        for kind, item, name in members:
            if kind != "module":
                self.names.setdefault(item, name)

    def module(self, id, path):
        for kind, item, name in sorted(self.members(id, path), key=lambda member: member[2]):
            if kind == "module":
                yield f"pub mod {name}"
                yield from self.module(item, f"{name}::")
            elif self.names[item] == name:
                yield from self.item(item, name)
            else:
                yield f"pub use {self.names[item]} as {name}"

    def item(self, id, path):
        kind, inner = self.inner(id)
        of = getattr(self, kind, None)
        if of is None:
            sys.exit(f"{path} is a {kind}: teach {__file__} how it is written")
        attributes = self.index[str(id)]["attrs"]
        head, *rest = of(inner, path)
        yield f"{'#[non_exhaustive] ' if 'non_exhaustive' in attributes else ''}{head}"
        yield from rest

    def constant(self, inner, path):
        yield f"pub const {path}: {self.type(inner['type'])}"

    def type_alias(self, inner, path):
        parameters, where = self.generics(inner["generics"])
        yield f"pub type {path}{parameters} = {self.type(inner['type'])}{where}"

    def struct(self, inner, path):
        parameters, where = self.generics(inner["generics"])
        kind = inner["kind"]
        if "tuple" in kind:
            yield f"pub struct {path}{parameters}({self.positions(kind['tuple'])}){where}"
        else:
            yield f"pub struct {path}{parameters}{where}"
            yield from self.fields(kind["plain"]["fields"] if "plain" in kind else [], f"pub {path}")
        yield from self.impls(inner["impls"], path)

    def enum(self, inner, path):
        parameters, where = self.generics(inner["generics"])
        yield f"pub enum {path}{parameters}{where}"
        for variant in inner["variants"]:
            yield from self.item(variant, f"{path}::{self.index[str(variant)]['name']}")
        yield from self.impls(inner["impls"], path)

    def variant(self, inner, path):
        kind = inner["kind"]
        if "tuple" in kind:
            yield f"{path}({self.positions(kind['tuple'])})"
        else:
            yield path
            yield from self.fields(kind["struct"]["fields"] if "struct" in kind else [], path)

    def fields(self, fields, path):
        for field in fields:
            item = self.index[str(field)]
            yield f"{path}::{item['name']}: {self.type(item['inner']['struct_field'])}"

    def positions(self, fields):
        """The fields of a tuple; `_` for one that is private."""
        types = ("_" if field is None else self.type(self.inner(field)[1]) for field in fields)
        return ", ".join(types)

    def trait(self, inner, path):
        parameters, where = self.generics(inner["generics"])
        yield f"pub trait {path}{parameters}{self.bounds(inner['bounds'])}{where}"
        for item in inner["items"]:
            yield from self.item(item, f"{path}::{self.index[str(item)]['name']}")
        for item in inner["implementations"]:
            # Those for types of the crate are listed there.
            if self.id_of(self.inner(item)[1]["for"]) not in self.names:
                yield self.trait_impl(self.inner(item)[1])

    def impls(self, impls, path):
        """The items of a type by name, then the traits that it has."""
        items, traits = [], []
        for item in impls:
            inner = self.inner(item)[1]
            if inner["trait"] is None:
                owned = ((self.index[str(id)]["name"], id) for id in inner["items"])
                items.extend((name, list(self.item(id, f"{path}::{name}"))) for name, id in owned)
            elif not inner["is_synthetic"] and inner["blanket_impl"] is None:
                # One that is for another type of the crate is listed there. `StructuralPartialEq` comes with `PartialEq`.
                is_listed_here = self.names.get(self.id_of(inner["for"]), path) == path
                if is_listed_here and inner["trait"]["path"] != "StructuralPartialEq":
                    traits.append(self.trait_impl(inner))
        for _, lines in sorted(items):
            yield from lines
        yield from sorted(traits)

    def id_of(self, type):
        return type.get("resolved_path", {}).get("id")

    def trait_impl(self, inner):
        parameters, where = self.generics(inner["generics"])
        types = []
        for item in inner["items"]:
            kind, of = self.inner(item)
            if kind == "assoc_type":
                types.append(f"type {self.index[str(item)]['name']} = {self.type(of['type'])}")
        body = f" {{ {'; '.join(types)} }}" if types else ""
        return f"impl{parameters} {self.path(inner['trait'])} for {self.type(inner['for'])}{where}{body}"

    def assoc_const(self, inner, path):
        yield f"pub const {path}: {self.type(inner['type'])}"

    def assoc_type(self, inner, path):
        yield f"type {path}{self.bounds(inner['bounds'])}"

    def function(self, inner, path):
        header, (parameters, where) = inner["header"], self.generics(inner["generics"])
        words = [word for word in ("const", "async", "unsafe") if header[f"is_{word}"]]
        inputs, output = inner["sig"]["inputs"], inner["sig"]["output"]
        arguments = ", ".join(self.argument(name, type) for name, type in inputs)
        returned = f" -> {self.type(output)}" if output else ""
        yield f"{' '.join(['pub', *words, 'fn'])} {path}{parameters}({arguments}){returned}{where}"

    def argument(self, name, type):
        written = self.type(type)
        short = {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}
        return short.get(written, f"self: {written}") if name == "self" else f"{name}: {written}"

    def generics(self, generics):
        """The parameters in angle brackets, and the where clause."""
        written = [self.parameter(parameter) for parameter in generics["params"]]
        written = ", ".join(parameter for parameter in written if parameter)
        where = ", ".join(self.predicate(predicate) for predicate in generics["where_predicates"])
        return f"<{written}>" if written else "", f" where {where}" if where else ""

    def parameter(self, parameter):
        [(kind, of)] = parameter["kind"].items()
        if kind == "lifetime":
            return parameter["name"] + (f": {' + '.join(of['outlives'])}" if of["outlives"] else "")
        if kind == "const":
            return f"const {parameter['name']}: {self.type(of['type'])}"
        # `impl Trait` as an argument is written there.
        return None if of["is_synthetic"] else parameter["name"] + self.bounds(of["bounds"])

    def predicate(self, predicate):
        [(kind, of)] = predicate.items()
        if kind == "bound_predicate":
            return self.type(of["type"]) + self.bounds(of["bounds"])
        return f"{of['lifetime']}: {' + '.join(of['outlives'])}"

    def bounds(self, bounds):
        written = " + ".join(self.bound(bound) for bound in bounds)
        return f": {written}" if written else ""

    def bound(self, bound):
        [(kind, of)] = bound.items()
        if kind != "trait_bound":
            return of
        return ("?" if of["modifier"] == "maybe" else "") + self.path(of["trait"])

    def path(self, path):
        """The name of a type or trait, with its arguments: as the user of the crate has it, or the whole path."""
        name = path["path"]
        if path["id"] in self.names:
            name = self.names[path["id"]]
        elif known := self.paths.get(str(path["id"])):
            first, *inside = known["path"]
            first = "std" if first in ("core", "alloc") else first
            name = inside[-1] if first == "std" and inside[-1] in self.PRELUDE else "::".join([first, *inside])
        return name + self.arguments(path["args"])

    def arguments(self, arguments):
        if arguments is None:
            return ""
        [(kind, of)] = arguments.items()
        if kind == "parenthesized":
            inputs = ", ".join(self.type(type) for type in of["inputs"])
            return f"({inputs})" + (f" -> {self.type(of['output'])}" if of["output"] else "")
        written = []
        for argument in of["args"]:
            [(kind, value)] = argument.items()
            written.append(self.type(value) if kind == "type" else value)
        for constraint in of["constraints"]:
            [(_, [(_, value)])] = ((kind, binding.items()) for kind, binding in constraint["binding"].items())
            written.append(f"{constraint['name']} = {self.type(value)}")
        return f"<{', '.join(written)}>" if written else ""

    def type(self, type):
        [(kind, of)] = type.items()
        match kind:
            case "primitive" | "generic":
                return of
            case "resolved_path":
                return self.path(of)
            case "tuple":
                return f"({', '.join(map(self.type, of))})"
            case "slice":
                return f"[{self.type(of)}]"
            case "array":
                return f"[{self.type(of['type'])}; {of['len']}]"
            case "borrowed_ref":
                lifetime = f"{of['lifetime']} " if of["lifetime"] else ""
                return f"&{lifetime}{'mut ' if of['is_mutable'] else ''}{self.type(of['type'])}"
            case "impl_trait":
                return f"impl {' + '.join(map(self.bound, of))}"
            case "dyn_trait":
                traits = [self.path(each["trait"]) for each in of["traits"]]
                return f"dyn {' + '.join(traits + ([of['lifetime']] if of['lifetime'] else []))}"
            case "qualified_path":
                return f"<{self.type(of['self_type'])} as {self.path(of['trait'])}>::{of['name']}"
        sys.exit(f"a type of the API is a {kind}: teach {__file__} how it is written")


if __name__ == "__main__":
    main()
