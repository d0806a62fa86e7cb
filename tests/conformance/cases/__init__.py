"""The cases: every module here but lib and impl holds some, by topic."""

import importlib
import pkgutil


def collect():
    """All cases, module by module, in the order in which they are written."""
    found = []
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: (m.name.startswith("grown_"), m.name)):
        if module.name in ("lib", "impl"):
            continue
        names = vars(importlib.import_module("cases." + module.name))
        own = [f for f in names.values() if getattr(f, "is_case", False) and f.__module__ == "cases." + module.name]
        found += sorted(own, key=lambda f: f.order)
    seen = [f.__name__ for f in found]
    assert len(set(seen)) == len(seen), "two cases have the same name"
    return found
