"""`elea acl ros2`: access rules of a router from a policy of SROS 2."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from elea.errors import ConfigError

SUMMARY: Final = "print the access rules of a router for a policy of SROS 2"
_EPILOG: Final = """\
The output is the section access_control of a configuration. An enclave is a subject, known by the
common name of its certificate. --read-only takes a common name in place of a policy.

example:
  elea acl ros2 policy.xml --domain 0 > access.json
  elea acl ros2 --read-only dashboard
"""


def configure(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to those of `elea acl`."""
    parser = verbs.add_parser(
        "ros2",
        help=SUMMARY,
        description=SUMMARY,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("policy", metavar="POLICY", nargs="?", help="the policy, XML")
    parser.add_argument(
        "--domain", type=int, default=0, metavar="N", help="the ROS domain (default: 0)"
    )
    parser.add_argument(
        "--read-only", metavar="NAME", help="rules for one observer with this common name"
    )
    parser.set_defaults(acl_verb=run)


def run(args: argparse.Namespace) -> int:
    """Print the section."""
    from elea.ros.access import access_control, read_only  # late: `elea acl` needs no ROS

    if (args.policy is None) == (args.read_only is None):
        raise ConfigError("POLICY", "give a policy, or --read-only")
    if args.read_only is not None:
        section = read_only(args.read_only, args.domain)
    else:
        text = Path(args.policy).read_text(encoding="utf-8", errors="replace")
        section = access_control(text, args.domain)
    print(json.dumps({"access_control": section}, indent=2))
    return 0
