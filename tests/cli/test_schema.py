# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema that the SDK ships accepts and refuses the same manifests as the core's validation.

The validator below knows the keywords that the schema uses and stumbles over any other."""
import json
import os
import re
import unittest

from kvstore import Case, manifest

with open(os.environ["KVS_SCHEMA"], encoding="utf-8") as file:
    SCHEMA = json.load(file)

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool}
SILENT = {"$schema", "$defs", "$ref", "title", "description"}


def is_type(value, name):
    if name in ("integer", "number"):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (name == "number" or value == int(value))
    return isinstance(value, TYPES[name])


def holds(value, keyword, argument):
    """Whether `value` satisfies one keyword of a schema."""
    if keyword == "type":
        names = [argument] if isinstance(argument, str) else argument
        return any(is_type(value, name) for name in names)
    if keyword == "enum":
        return value in argument
    if keyword == "pattern":
        return not isinstance(value, str) or re.search(argument.replace("$", r"\Z"), value)
    if keyword in ("minimum", "maximum"):
        sign = 1 if keyword == "minimum" else -1
        return not is_type(value, "number") or sign * value >= sign * argument
    if keyword == "required":
        return not isinstance(value, dict) or all(name in value for name in argument)
    if keyword == "properties":
        return not isinstance(value, dict) or all(
            valid(value[name], schema) for name, schema in argument.items() if name in value)
    if keyword == "items":
        return not isinstance(value, list) or all(valid(item, argument) for item in value)
    if keyword == "minItems":
        return not isinstance(value, list) or len(value) >= argument
    raise NotImplementedError(keyword)


def valid(value, schema):
    if "$ref" in schema and not valid(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]):
        return False
    return all(holds(value, k, a) for k, a in schema.items() if k not in SILENT)


def backend(**changes):
    return [dict({"kind": "backend", "name": "local"}, **changes)]


def capabilities(**changes):
    return {"provides": backend(capabilities=changes)}


GOOD = [
    {}, {"summary": None, "package": None, "license": None, "requires": None, "options": None},
    {"manifest_version": "1.9"}, {"summary": ""}, {"x-vendor": {"a": [1]}}, {"unknown": 1},
    {"version": "2.0~rc1+git-5"}, {"library": "./x.so"}, {"library": "/a b/c"}, {"package": ""},
    {"provides": backend()}, {"provides": backend() + [{"kind": "compressor", "name": "2bit"}]},
    {"provides": backend(priority=0)}, {"provides": backend(priority=100)},
    {"provides": backend(priority=50.0)},
    {"provides": backend(aliases=[], word="w", **{"with": []})},
    {"provides": backend(name="a" * 64)}, {"provides": backend(name="a-b_c")},
    capabilities(), capabilities(sparse=True, devices=["rocm"], dtypes=["bfloat16"]),
    {"requires": {}}, {"requires": {"core": ">=0"}}, {"requires": {"core": ">=0.0.1"}},
    {"requires": {"libraries": [{"name": "libz.so.1"}], "devices": []}},
    {"options": []}, {"options": [{"name": "a", "type": "time"}]},
    {"options": [{"name": "a", "type": "bool", "default": True, "variable": "DMLC_X"}]},
    {"options": [{"name": "a", "type": "text", "default": ""}]},
]

BAD = [
    *({name: None} for name in SCHEMA["required"] if name != "name"),
    *({name: 1} for name in SCHEMA["properties"] if name != "name"),
    {"manifest_version": "1"}, {"manifest_version": "1.0.0"}, {"manifest_version": "01.0"},
    {"manifest_version": "0.9"}, {"version": ""}, {"version": "v1"}, {"version": "1 2"},
    {"library": "x.so"}, {"library": ""}, {"library": "a/"}, {"library": "/a\nb"}, {"abi": "1"},
    {"abi": "1.0.0"}, {"abi": "1.x"}, {"abi": "1.00"}, {"abi": "123456.0"}, {"summary": "a\u001bb"},
    {"summary": "a\u007fb"}, {"arch": "a\nb"}, {"provides": []}, {"provides": [1]},
    {"provides": [{"kind": "backend"}]}, {"provides": [{"name": "local"}]},
    {"provides": backend(kind="other")}, {"provides": backend(name="")},
    {"provides": backend(name="A")}, {"provides": backend(name="-a")},
    {"provides": backend(name="a" * 65)}, {"provides": backend(name="a\n")},
    {"provides": backend(aliases="a")}, {"provides": backend(aliases=[1])},
    {"provides": backend(aliases=["a b"])}, {"provides": backend(word="")},
    {"provides": backend(word="a_b")}, {"provides": backend(word=1)},
    {"provides": backend(**{"with": ["a-b"]})}, {"provides": backend(priority=-1)},
    {"provides": backend(priority=101)}, {"provides": backend(priority=1.5)},
    {"provides": backend(priority="1")}, {"provides": backend(priority=True)},
    capabilities(sparse=1), capabilities(optimizer="true"), capabilities(devices="cpu"),
    capabilities(devices=["CPU"]), capabilities(dtypes=["float8"]), capabilities(dtypes=[1]),
    capabilities(gradient_compression=True), {"provides": backend(capabilities=[])},
    {"requires": []}, {"requires": {"core": "0.1"}}, {"requires": {"core": ">=1.2.3.4"}},
    {"requires": {"core": ">=01"}}, {"requires": {"libraries": {}}},
    {"requires": {"libraries": [{}]}}, {"requires": {"libraries": [{"name": "/lib/z"}]}},
    {"requires": {"libraries": [{"name": ""}]}},
    {"requires": {"libraries": [{"name": "z", "why": 1}]}},
    {"requires": {"devices": "cuda"}}, {"options": {}}, {"options": [{"name": "a"}]},
    {"options": [{"type": "int"}]}, {"options": [{"name": "a", "type": "double"}]},
    {"options": [{"name": "a", "type": "int", "default": None}]},
    {"options": [{"name": "a", "type": "int", "default": [1]}]},
    {"options": [{"name": "a", "type": "text", "default": "a\nb"}]},
    {"options": [{"name": "a", "type": "int", "doc": 1}]},
    {"options": [{"name": "a", "type": "int", "variable": "a"}]},
    {"options": [{"name": "a", "type": "int", "variable": "1A"}]},
]


class Schema(Case):
    def states(self, manifests):
        """The state of each manifest, by the name it was written under."""
        for name, content in manifests.items():
            self.write(content, name=name)
        listed = json.loads(self.succeed("list", "--json"))
        return {p["name"]: p for p in listed["plugins"]}

    def manifests(self, changes):
        return {f"m{i}": manifest(**{"name": f"m{i}", **change})
                for i, change in enumerate(changes)}

    def test_both_accept_good_manifests(self):
        manifests = self.manifests(GOOD)
        plugins = self.states(manifests)
        for name, content in manifests.items():
            with self.subTest(manifest=content):
                self.assertTrue(valid(content, SCHEMA))
                self.assertNotIn(plugins[name]["state"], ("bad-manifest", "format-too-new"),
                                 plugins[name]["reason"])

    def test_both_refuse_bad_manifests(self):
        manifests = self.manifests(BAD)
        plugins = self.states(manifests)
        for name, content in manifests.items():
            with self.subTest(manifest=content):
                self.assertFalse(valid(content, SCHEMA))
                self.assertEqual(plugins[name]["state"], "bad-manifest")

    def test_both_refuse_bad_names(self):
        for name in ("A", "1a", "a-b", "a" * 33):
            with self.subTest(name=name):
                content = manifest(name=name)
                self.assertFalse(valid(content, SCHEMA))
                self.assertEqual(self.states({name: content})[name]["state"], "bad-manifest")

    def test_a_newer_major_version_is_refused_by_both(self):
        content = manifest(manifest_version="2.0")
        self.assertFalse(valid(content, SCHEMA))
        self.assertEqual(self.states({"local": content})["local"]["state"], "format-too-new")

    def test_both_know_the_same_keys(self):
        """A key of the schema is not told to be unknown; one that is missing there is."""
        def spoilt(value):
            """The value with each key of each object changed, in turn; and the key's new name."""
            for key, item in (value.items() if isinstance(value, dict) else enumerate(value)):
                if isinstance(value, dict):
                    yield {(k + "q" if k == key else k): v for k, v in value.items()}, key + "q"
                if isinstance(item, (dict, list)):
                    for changed, name in spoilt(item):
                        copied = dict(value) if isinstance(value, dict) else list(value)
                        copied[key] = changed
                        yield copied, name

        def known(schema):
            if "$ref" in schema:
                schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]]
            names = set(schema.get("properties", {}))
            parts = [*schema.get("properties", {}).values()]
            for part in parts + ([schema["items"]] if "items" in schema else []):
                names |= known(part)
            return names

        full = manifest(name="m0", options=[{"name": "b", "type": "size", "default": 1, "doc": "",
                                             "variable": "V"}])
        self.assertEqual(self.states({"m0": full})["m0"]["notes"], [])
        seen = set()
        for changed, name in spoilt(full):
            state = self.states({"m0": changed})["m0"]
            if state["state"] != "bad-manifest":
                with self.subTest(name=name):
                    self.assertEqual(len(state["notes"]), 1, state["notes"])
                    self.assertIn(name, state["notes"][0])
            seen.add(name[:-1])
        self.assertEqual(seen, known(SCHEMA))

    def test_the_projects_own_manifests_satisfy_the_schema(self):
        prefix = os.path.dirname(os.path.dirname(os.environ["KVSTORE_CLI"]))
        directory = os.path.join(prefix, "share", "kvstore", "plugins.d")
        for name in os.listdir(directory):
            with open(os.path.join(directory, name), encoding="utf-8") as own:
                self.assertTrue(valid(json.load(own), SCHEMA), name)


if __name__ == "__main__":
    unittest.main()
