"""All rows of a log in a table, wherever Spark runs.

    spark-submit --master spark://host:7077 archive.py /shared/log /lake/bronze

Nothing in here knows whether that is one process or a cluster: `spark-submit` says it.
"""

import argparse

import elea.spark


def main() -> None:
    parser = argparse.ArgumentParser(description="all rows of a log in a table, each once")
    parser.add_argument("log", help="a directory that every host has, or zenoh:NAME")
    parser.add_argument("table", help="a directory that every host has")
    parser.add_argument("--every", default="once", help="such as '10 seconds'; (%(default)s)")
    parser.add_argument("--connect", help="a router, for zenoh:NAME: tcp/10.0.0.1:7447")
    parser.add_argument("--rows", default="4000000", help="of a batch, at most; (%(default)s)")
    args = parser.parse_args()
    options = {"maxRowsPerTrigger": args.rows}
    if args.connect:
        options["connect"] = args.connect
    spark = elea.spark.session("archive")
    archive = elea.spark.archive(spark, log=args.log, table=args.table, options=options)
    query = archive.start(trigger=args.every)
    try:
        query.awaitTermination()
        print(f"{elea.spark.table(spark, args.table).count()} rows in {args.table}")
    finally:
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
