"""Assemble the changelog of a release from the fragments in changes/.

python tools/release.py --draft                    print what the next release would say
python tools/release.py 0.1.0 --date 2027-01-31    write CHANGELOG.md, delete the fragments
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
KINDS: Final = {
    "breaking": "Breaking changes",
    "feature": "New",
    "fix": "Fixed",
    "perf": "Faster",
    "doc": "Documentation",
}
MARKER: Final = "<!-- releases, newest first -->\n"


def fragments(folder: Path) -> dict[Path, str]:
    """Every fragment and its kind; a name of another shape is an error."""
    found = {}
    for path in sorted(folder.glob("*.md")):
        if path.name == "README.md":
            continue
        parts = path.name.split(".")
        if len(parts) != 3 or parts[1] not in KINDS:
            raise SystemExit(f"{path.name}: not <slug>.<{'|'.join(KINDS)}>.md")
        found[path] = parts[1]
    return found


def assemble(folder: Path) -> str:
    """The entries of one release, grouped by kind."""
    found = fragments(folder)
    text = ""
    for kind, title in KINDS.items():
        entries = [path.read_text("utf-8").strip() for path in found if found[path] == kind]
        if entries:
            text += f"\n### {title}\n\n"
            text += "".join("- " + entry.replace("\n", "\n  ") + "\n" for entry in entries)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", nargs="?", help="the version that is released")
    parser.add_argument("--date", help="YYYY-MM-DD")
    parser.add_argument("--draft", action="store_true", help="print, change nothing")
    args = parser.parse_args()
    entries = assemble(ROOT / "changes")
    if args.draft:
        print(entries.lstrip())
        return 0
    if not re.fullmatch(r"\d+\.\d+\.\d+", args.version or ""):
        parser.error("a release needs a version like 0.1.0")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", args.date or ""):
        parser.error("a release needs --date YYYY-MM-DD")
    changelog = ROOT / "CHANGELOG.md"
    before, marker, after = changelog.read_text("utf-8").partition(MARKER)
    if not marker:
        raise SystemExit("CHANGELOG.md has lost its marker line")
    section = f"\n## {args.version} ({args.date})\n{entries}"
    changelog.write_text(before + marker + section + after, encoding="utf-8")
    for path in fragments(ROOT / "changes"):
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
