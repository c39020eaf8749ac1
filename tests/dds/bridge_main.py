"""A bridge in a process of its own: `ZID DOMAIN ENDPOINT SECTION`, until its input ends."""

import json
import sys

from tests.dds.peers import bridge, config_of

import elea


def main() -> None:
    zid, domain, endpoint, section = sys.argv[1:5]
    config = config_of(connect=endpoint, mode="client")
    config.insert_json5("id", json.dumps(zid))
    with elea.open(config) as session, bridge(session, int(domain), **json.loads(section)) as made:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for _line in sys.stdin:
            counts: dict[str, object] = {**made.describe.counts(), "standby": made.is_standby}
            counts["duplicates_by_rule"] = dict(made.counts.duplicates)
            counts["bridges"] = sorted(made.presence._bridges)
            sys.stdout.write(json.dumps(counts) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
