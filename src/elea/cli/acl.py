"""`elea acl`: what access rules say, and whether an audit file is whole."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.choices import ACTIONS, FLOWS
from elea.cli import ros2_access
from elea.cli.output import escape, json_line
from elea.errors import EleaError, InvalidValueError
from elea.ids import ZenohId

if TYPE_CHECKING:
    from elea.policy.access import Access, Verdict
    from elea.policy.actions import Action, Flow
    from elea.policy.identity import Identity

NAME: Final = "acl"
SUMMARY: Final = "explain what access rules allow; check an audit file"

_EPILOG: Final = """\
exit status:
  0  allowed
  1  denied
  2  wrong usage, or a configuration that cannot be used

SUBJECT is a list of properties separated by commas: user=NAME, cert=COMMON_NAME,
interface=NAME, protocol=NAME, zid=ID. What is not given is not known of the neighbour.

example:
  elea acl explain router.json5 --subject user=anna,protocol=tls put fleet/7/pose
"""
_PROPERTIES: Final = ("user", "cert", "interface", "protocol", "zid")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verbs of the verb."""

    verbs = parser.add_subparsers(metavar="VERB", title="verbs", required=True)
    summary = "say whether a neighbour may do something, and which rule decides it"
    explain = verbs.add_parser(
        "explain",
        help=summary,
        description=summary,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    explain.add_argument("config", metavar="CONFIG", help="the configuration file, JSON5 or YAML")
    explain.add_argument("action", metavar="ACTION", choices=ACTIONS)
    explain.add_argument(
        "key", metavar="KEY", help="the key expression it is done on; of a query, the selector"
    )
    explain.add_argument("--subject", default="", help="who does it, as below")
    explain.add_argument(
        "--flow",
        choices=FLOWS,
        help="which way, seen from the router; both if not given",
    )
    explain.add_argument("--json", action="store_true", help="print one JSON object per line")
    explain.set_defaults(acl_verb=_explain)
    summary = "check that no line of an audit file was changed or taken out"
    verify = verbs.add_parser("verify", help=summary, description=summary, allow_abbrev=False)
    verify.add_argument("file", metavar="FILE", help="the audit file")
    verify.set_defaults(acl_verb=_verify)
    ros2_access.configure(verbs)


def run(args: argparse.Namespace) -> int:
    """Do what the command line asked for; returns the exit status."""
    try:
        status: int = args.acl_verb(args)
    except (EleaError, OSError) as error:
        # Not 1, which is an answer.
        print(escape(f"elea acl: {error}"), file=sys.stderr)
        return 2
    return status


def identity_of(subject: str) -> Identity:
    """The neighbour that `--subject` describes.

    Raises:
        InvalidValueError: a property is none of those known.
    """
    from elea.policy.identity import Identity, LinkIdentity

    values: dict[str, str] = {}
    for part in filter(None, subject.split(",")):
        name, equals, value = part.partition("=")
        if not equals or name not in _PROPERTIES or name in values:
            legal = ", ".join(f"{one}=..." for one in _PROPERTIES)
            raise InvalidValueError("subject", f"saw {part!a}; legal are {legal}, each once")
        values[name] = value
    zid = values.get("zid")
    interface = values.get("interface")
    link = LinkIdentity(
        protocol=values.get("protocol", ""),
        interfaces=() if interface is None else (interface,),
        common_name=values.get("cert"),
    )
    return Identity(
        zid="" if zid is None else str(ZenohId.parse(zid)), user=values.get("user"), links=(link,)
    )


def _explain(args: argparse.Namespace) -> int:
    from elea.config.config import Config
    from elea.policy.access import AccessControl, Verdict
    from elea.policy.actions import Action, Flow
    from elea.policy.policy import Policy
    from elea.policy.rules import Rules
    from elea.selector import Selector

    control = AccessControl.from_config(Config.from_file(args.config))
    identity = identity_of(args.subject)
    selector = Selector(args.key)
    key, parameters = str(selector.key_expr), str(selector.parameters)
    asks = "zid" in selector.parameters  # where a sample is; other questions to recorders have one
    action = Action(args.action)
    flows = [Flow(args.flow)] if args.flow else list(Flow)
    allowed = True
    for flow in flows:
        if control is None:
            access = None
            verdict = Verdict(True, None, "access control is not enabled")
        else:
            access = control.access(identity, flow)
            chain = Policy(interceptors=(Rules(control),)).chain(identity, flow)
            verdict = chain.verdict(action, key, 0, parameters, has_payload=not asks)
        allowed = allowed and verdict.allowed
        subjects = () if control is None else control.subjects(identity)
        _show(args, flow, subjects, _concerned(access, action), verdict)
    return 0 if allowed else 1


def _concerned(access: Access | None, action: Action) -> list[str]:
    if access is None:
        return []
    rules = [rule for rule in access.rules if action in rule.actions]
    return [f"{'allow' if rule.allows else 'deny'} {rule.id}" for rule in rules]


def _show(
    args: argparse.Namespace,
    flow: Flow,
    subjects: tuple[str, ...],
    rules: list[str],
    verdict: Verdict,
) -> None:
    if args.json:
        record = {
            "flow": flow.value,
            "action": args.action,
            "key": args.key,
            "allowed": verdict.allowed,
            "rule": verdict.rule_id,
            "why": verdict.why,
            "subjects": list(subjects),
            "rules": rules,
        }
        print(json_line(record))
        return
    word = "allowed" if verdict.allowed else "denied"
    by = "by the default" if verdict.rule_id is None else f"by rule {verdict.rule_id}"
    print(escape(f"{flow.value}: {word} {by}: {verdict.why}"))
    print(escape(f"  subjects: {', '.join(subjects) or 'none'}"))
    print(escape(f"  rules for {args.action}: {', '.join(rules) or 'none'}"))


def _verify(args: argparse.Namespace) -> int:
    from elea.daemon.audit import verify_file

    problem = verify_file(Path(args.file))
    print(escape(f"{args.file}: {problem or 'whole'}"))
    return 1 if problem else 0
