"""Every bound, with its unit and its reason.

Two kinds live here. The constants are inherent in the wire format and never change. `Limits` holds
what an operator may tighten or widen: each collection, length and rate that a peer can reach takes
its bound from one. A field's name ends in its unit: `_len` bytes, `_count` items, `_ns`
nanoseconds, `_depth` levels.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass

# Inherent in the format (wire.md 2.20).
VLE_LEN_MAX: Final = 9  # the ninth octet carries eight bits and no continuation
ZID_LEN_MAX: Final = 16
BATCH_LEN_MAX: Final = 65_535  # the stream length prefix is a u16
SERIAL_BATCH_LEN_MAX: Final = 1_500  # of a frame of a serial line, as Eclipse has it
SERIAL_OFFERED_LEN: Final = 1_493  # zenoh-pico drops frames that COBS makes longer than 1507
KEY_SUFFIX_LEN_MAX: Final = 65_535
EXPR_ID_MAX: Final = 65_535
LOCATOR_LEN_MAX: Final = 255
SCHEMA_LEN_MAX: Final = 255
REGION_NAME_LEN_MAX: Final = 32
TIMESTAMP_STACK_COUNT_MAX: Final = 255
RX_BUFFER_LEN_MAX: Final = 16 * 1024 * 1024  # of one read, taken for each link that has something
BATCH_LEN_MIN: Final = 64  # smaller ones are refused: headers would outweigh what they carry (T06)

# XRCE: what its generated codec is made with.
XRCE_PROPERTIES_COUNT_MAX: Final = 64  # per message or declaration
XRCE_PROPERTY_LEN_MAX: Final = 65_535  # a DDS description; others are shorter
XRCE_DECLARATIONS_COUNT_MAX: Final = 1_024  # per Declare
XRCE_BATCH_COUNT_MAX: Final = 65_535  # samples per BatchedData
XRCE_MASK_BITS_MAX: Final = 8_192  # of an AckNack; the window of 14-bit numbers has fewer
XRCE_FRAME_LEN_MAX: Final = 65_535  # on a stream; a longer one ends the connection
XRCE_SCHEMA_LEN_MAX: Final = 1024 * 1024  # characters of a text that defines messages
XRCE_SCHEMA_DEPTH_MAX: Final = 32  # types inside each other
XRCE_SCHEMA_NODES_MAX: Final = 100_000  # parts of a message, names followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one node. The defaults suit a router on an untrusted network."""

    # Codec: what one message may make us allocate (threats T02 to T04).
    extensions_count: int = 32  # per message; none defines more than nine
    locators_count: int = 64  # per HELLO or link-state record
    linkstate_records_count: int = 2_048  # per OAM; one record per node of the network
    linkstate_links_count: int = 8_192  # per OAM, over all its records
    shm_slices_count: int = 64  # per payload; one of ten octets becomes an object of 200
    decompressed_len: int = BATCH_LEN_MAX  # an LZ4 block never grows past a batch (T08)
    message_len: int = 64 * 1024 * 1024  # one reassembled network message (T05)
    fragments_len: int = 64 * 1024 * 1024  # all unfinished messages of one conversation
    fragments_node_len: int = 256 * 1024 * 1024  # all unfinished messages of a node

    # Key expressions: matching is O(n*m), these keep n and m small (T20).
    keyexpr_len: int = 1_024
    keyexpr_chunks_count: int = 64
    keyexpr_double_wild_count: int = 16  # `**` per expression
    keyexpr_sub_wild_count: int = 8  # `$*` per chunk

    # Routing: what one neighbour may make us remember (T22 to T27). Sessions of our own process
    # are exempt where a bound guards against strangers only.
    aliases_count: int = 4_096  # per face and direction
    declarations_count: int = 10_000  # entities per face, over all kinds; a client takes the below
    declarations_node_count: int = 200_000  # entities of all faces together (T23)
    router_declarations_count: int = 100_000  # entities of one router, of all that is below it
    declarations_turn_count: int = 256  # told or taken back before others are served (T23, T24)
    interests_count: int = 256  # per face; each may return every declaration
    answer_ns: int = 100_000  # what one declaration in an answer to an interest costs (T24)
    answers_debt_ns: int = 100_000_000  # who owes more is answered later (T24)
    queries_count: int = 1_024  # open queries per face that asked
    query_timeout_ns: int = 60 * 1_000_000_000  # longest a forwarded query stays open
    query_replies_count: int = 100_000  # per query
    query_replies_len: int = 256 * 1024 * 1024  # payload octets per query
    routes_count: int = 4_096  # cached routes per region and kind of message; keys per neighbour
    counted_keys_count: int = 10_000  # keys whose traffic is counted; further ones share a counter
    counted_keys_ns: int = 60_000_000_000  # how long it is counted after it was asked for
    plans_count: int = 4_096  # keys whose rules are remembered, per face and direction
    withheld_count: int = 1_024  # refused declarations, per face and direction: rules may change
    accounts_left_count: int = 1_024  # quotas of neighbours that left before they had paid
    user_chains_count: int = 256  # users of a service whose rules are at hand
    user_rates_count: int = 16_384  # users of a service that are down-sampled each by themselves
    gossip_nodes_count: int = 2_048  # psids remembered per neighbour, and candidates not fetched

    # Storages: what whoever may put can make one of them keep (T41).
    storage_keys_count: int = 1_000_000  # keys with a value; each takes about 700 octets of memory
    storage_marks_count: int = 100_000  # deletions and updates of many keys; the oldest go first
    storage_memory_len: int = 256 * 1024 * 1024  # keys and values of one in memory, unless it says
    log_shards_count: int = 1_024  # of one log: each is a directory and two open files
    log_block_rows_count: int = 65_536  # appended rows that become one block
    log_block_len: int = 8 * 1024 * 1024  # and their octets; a batch that long is one, not copied
    log_pending_len: int = 256 * 1024 * 1024  # appended and not durable yet; then appending waits
    log_consumers_count: int = 1_024  # names that hold rows back
    log_queries_count: int = 256  # that wait to be answered by the server of a log; then refused
    log_reply_len: int = 1024 * 1024  # blocks of a log that go into one reply; one at least
    flight_streams_count: int = 32  # of a Flight door at once, a block in memory each; then refused
    flight_batch_len: int = 4 * 1024 * 1024  # octets of rows in one message; one row at least
    flight_ticket_len: int = 64 * 1024  # of a ticket or a descriptor
    flight_stall_ns: int = 120 * 1_000_000_000  # a reader that takes nothing so long is let go
    spark_sources_count: int = 4_096  # sources of Spark sinks whose repeats are known as such
    spark_samples_count: int = 262_144  # of these sources, whose digests are remembered
    pipeline_tables_count: int = 256  # of one pipeline
    drift_columns_count: int = 32  # that payloads may add to a table; what is more is `_extra`
    drift_batch_columns_count: int = 16  # the same in one batch
    gold_devices_count: int = 1_000_000  # of a gold table, whose positions are remembered
    gold_groups_count: int = 1_000_000  # of an `alert`; more than that raised at once is an error
    gold_publishers_count: int = 1_000_000  # of a table of `losses`, whose numbers are remembered
    acks_count: int = 512  # acknowledged puts of a session under way, half of `queries_count`
    receipt_keys_count: int = 4_096  # of a session, whose puts are acknowledged without a question
    spool_memory_len: int = 16 * 1024 * 1024  # octets that wait in memory, unless it says
    spool_disk_len: int = 1024 * 1024 * 1024  # the same on disk
    spool_window_count: int = 4_096  # of a spool that are read ahead while it is drained
    spool_asked_count: int = 256  # questions of a spool that wait for an answer, one for each key
    spool_batch_count: int = 512  # samples of one key in one question
    spool_batch_len: int = 1024 * 1024  # and their bytes; a longer sample goes alone
    spool_commit_count: int = 64  # forwarded before that is written down; a crash repeats them
    record_logs_count: int = 256  # of one recording whose names come from keys; two threads each
    record_windows_count: int = 16_384  # publishers and keys whose numbers a log remembers
    record_spans_count: int = 1_024  # ranges of numbers of one of them; the lowest go
    record_run_count: int = 32  # numbers in a row, after which a publisher seems to number one key
    record_places_count: int = 65_536  # acknowledged samples whose places a log remembers
    record_suspects_count: int = 1_024  # rows that are compared at once with what is there
    record_looked_rows_count: int = 128 * 1024 * 1024  # in a second, for live rows that may repeat
    record_retry_ns: int = 600_000_000_000  # a put without timestamp is known as repeated so long
    record_tail_rows_count: int = 524_288  # of each shard, looked at when a log is opened
    record_waiting_count: int = 4_096  # who wait for an acknowledgement; more are told "busy"
    record_waiting_len: int = 256 * 1024 * 1024  # their samples together; more are told "busy"
    record_tokens_count: int = 65_536  # changes of liveliness that wait for the disk; then dropped
    record_receipts_count: int = 4_096  # publishers that get receipts; one more, and all ask anew
    record_history_count: int = 65_536  # samples of caches that wait for the end of an answer
    storage_queue_len: int = 64 * 1024 * 1024  # updates that wait for a slow disk; then refused
    storage_problems_count: int = 100  # damaged entries that are told one by one
    consumer_owners_count: int = 4_096  # consumers of logs whose identity a router remembers
    historian_queries_count: int = 64  # that wait or are answered; more are told to ask again
    historian_workers_count: int = 4  # answered at once: a long one does not hold up the others
    historian_rows_count: int = 50_000  # replies to one query, half of what a router forwards
    historian_rows_len: int = 32 * 1024 * 1024  # and their octets; twice that while they are sorted
    historian_keys_count: int = 100_000  # of a table, that are remembered; twice that meanwhile
    historian_stall_ns: int = 10_000_000_000  # an asker that takes nothing so long is let go
    series_decoded_count: int = 20_000  # payloads decoded for one plot; of more, one in n
    series_fields_count: int = 4  # of one payload
    series_columns_count: int = 4_096  # pixels that a plot is thinned to
    sql_queries_count: int = 16  # that wait or are answered; more are told to ask again
    sql_workers_count: int = 2  # answered at once, each by a process with the memory below
    sql_rows_count: int = 50_000  # of one answer; an administrator may choose another number
    sql_rows_len: int = 32 * 1024 * 1024  # and their octets
    sql_time_ns: int = 30_000_000_000  # for one answer; may be chosen as well
    sql_memory_len: int = 256 * 1024 * 1024  # for one answer; may be chosen as well
    sql_text_len: int = 64 * 1024  # of a question
    since_held_count: int = 65_536  # live samples that wait for history; then refused, counted
    since_held_len: int = 64 * 1024 * 1024  # and their octets
    since_found_count: int = 1_000_000  # samples of history that wait for an answer to end
    since_settle_ns: int = 1_000_000_000  # from a sample's publication until a historian has it
    since_lag_ns: int = 10_000_000_000  # and then, until it has what came live; then told
    since_overlap_ns: int = 60_000_000_000  # history asked twice: clocks differ, recorders lag

    # Texts handed to us by users and files.
    selector_len: int = 65_535
    config_len: int = 1024 * 1024
    config_depth: int = 32
    config_nodes_count: int = 20_000

    # Predicates: a stranger writes them, and every sample is held against them.
    predicate_len: int = 4_096  # octets of the text, of a LIKE pattern in data
    layout_len: int = 65_536  # octets of the text of a layout
    predicate_depth: int = 32  # brackets, NOT and calls inside each other; nesting of a layout
    predicate_nodes_count: int = 4_096  # of a tree, however it was made; each is one step at most
    predicate_like_count: int = 1_000_000  # characters compared per sample by LIKEs that hold `_`
    projection_count: int = 256  # fields of one projection

    # Columns from payloads: what a publisher may make a table of its (T45).
    decode_len: int = 1024 * 1024  # octets of one payload that is decoded
    decode_depth: int = 32  # nesting of a value; deeper ones become dead letters
    decode_rows_count: int = 65_536  # rows that one payload may become
    decode_rows_len: int = 64 * 1024 * 1024  # octets of them
    decode_columns_count: int = 1_024  # of one plan, those of structures counted
    decode_sample_count: int = 1_000  # payloads looked at to find out what they hold

    # ROS 2: what tokens, definitions and payloads of strangers may make of us.
    ros2_definition_len: int = 256 * 1024  # bytes of one definition with all it uses
    ros2_definition_types_count: int = 512  # types of one definition
    ros2_definition_depth: int = 32  # types inside each other
    ros2_fields_count: int = 4_096  # of one type
    ros2_array_count: int = 1 << 20  # items of an array of fixed length
    ros2_types_count: int = 4_096  # definitions kept; the least recently used goes
    ros2_tokens_count: int = 100_000  # of one domain; more are counted and left out
    ros2_token_len: int = 1_024  # characters of one
    ros2_requests_count: int = 1_024  # of one server that wait; more get an error reply
    ros2_queue_len: int = 10_000  # messages of a subscription that keeps all
    ros2_topics_count: int = 1_000  # topics with metrics of their own

    # Transport: what a neighbour, or somebody who wants to become one, may hold (T05 to T12).
    handshake_ns: int = 10_000_000_000  # from the link to OPEN, then the link goes (T09)
    cookie_ns: int = 10_000_000_000  # a cookie is as old as its handshake may be (T12)
    cookies_count: int = 65_536  # the last ones, which can be opened, once each
    lease_min_ns: int = 1_000_000_000  # a lease of 0 must not end a link at once (T07)
    lease_max_ns: int = 60_000_000_000  # one of years must not keep a dead link (T07)
    fragment_idle_ns: int = 10_000_000_000  # an unfinished message without news is dropped (T05)
    tx_queue_len: int = 1024 * 1024  # waiting per priority and neighbour; past it, congestion
    backlog_len: int = 6 * 1024 * 1024  # without room at a neighbour; past it, sources wait (T28)
    held_ns: int = 1_800_000_000  # sources of a router wait so long for who takes nothing (T28)
    waiting_node_len: int = 256 * 1024 * 1024  # for all neighbours; past it, the fattest goes (T28)
    close_flush_ns: int = 2_500_000_000  # how long CLOSE waits for what was sent before it
    group_members_count: int = 1_000  # of one multicast group; as many as transports
    scout_replies_count: int = 100  # HELLOs per second, to everybody together (T11)
    scout_replies_source_count: int = 10  # HELLOs per second to one address (T11)
    scout_sources_count: int = 1_024  # addresses whose rate is remembered
    learned_count: int = 64  # nodes dialled at once because others told of them (T11, T49)
    learned_dials_count: int = 256  # nodes others told of, dialled in a burst (T49)
    learned_dial_ns: int = 50_000_000  # until one more of them may be dialled (T49)
    hello_len: int = 1_400  # an answer is one datagram, short enough for any path (T11)

    # Links: sockets, and those who knock (T09, T10, T49).
    link_addresses_count: int = 8  # tried at once per connection, over all names it has
    link_read_len: int = 65_536  # one read; a larger buffer costs a page fault per page, each time
    link_turn_len: int = 256 * 1024  # read from one link before the others have their turn
    link_turn_ns: int = 5_000_000  # spent on what one link brings before the others (T21, T23)
    link_turn_datagrams_count: int = 64  # the same for links where one read is one batch
    accept_pending_count: int = 512  # handshakes going on, over all listeners
    accept_pending_per_address_count: int = 32  # of one IPv4 address or IPv6 /64
    accept_turn_count: int = 64  # newcomers taken before the links have their turn
    login_failures_count: int = 10  # wrong passwords of one address, then it has to wait
    login_failure_ns: int = 10_000_000_000  # until another wrong password is forgiven
    login_sources_count: int = 1_024  # addresses whose wrong passwords are remembered
    accept_handshake_ns: int = 5_000_000_000  # from the first octet to the open session
    spin_ns: int = 200_000  # a loop in a dialogue looks so long for an answer before it sleeps
    arrow_batch_len: int = 8 * 1024 * 1024  # payloads of one record batch, less the last one's
    link_queue_len: int = 4 * 1024 * 1024  # waiting to be written to one link
    udp_sources_count: int = 1_000  # links of one UDP listener
    udp_inbox_len: int = 1024 * 1024  # datagrams of one source that nobody has read yet

    # XRCE: what one device may make a gateway keep.
    xrce_sessions_count: int = 10_000  # of one gateway
    xrce_sessions_host_count: int = 100  # and of one address, if the gateway can tell
    xrce_locators_count: int = 16  # of one device, and sources it is heard from
    xrce_locator_len: int = 256
    xrce_scouts_source_count: int = 20  # Scouts, and Opens, of one source answered per second
    xrce_scouts_count: int = 1_000  # and of all together
    xrce_pings_source_count: int = 100  # Pings of one stranger answered per second
    xrce_pings_count: int = 1_000  # and of all together
    xrce_conduits_count: int = 8  # per session and direction
    xrce_flight_count: int = 256  # messages of a conduit that the peer is not known to have
    xrce_window_count: int = 1_024  # and with them those that it stores, but cannot deliver yet
    xrce_window_len: int = 1024 * 1024  # and their octets; then writers wait
    xrce_store_count: int = 1_024  # messages of a conduit that came too early
    xrce_store_len: int = 1024 * 1024  # and their octets; more are asked for again
    xrce_message_len: int = 16 * 1024 * 1024  # one payload that came in fragments
    xrce_fragments_len: int = 64 * 1024 * 1024  # all unfinished ones of a session
    xrce_fragment_idle_ns: int = 30_000_000_000  # an unfinished one without news is dropped
    xrce_names_count: int = 65_536  # resources and selections of a session
    xrce_endpoints_count: int = 8_192  # publishers of a session, and as many subscribers
    xrce_transaction_count: int = 8_192  # declarations of one transaction
    xrce_subscriber_count: int = 1_024  # samples kept for a subscriber that pulls, or sleeps
    xrce_subscriber_len: int = 1024 * 1024  # and their octets; the oldest is dropped
    xrce_outbox_count: int = 1_024  # samples that wait for a device's window
    xrce_outbox_len: int = 4 * 1024 * 1024  # and their octets; more end its session
    xrce_tasks_count: int = 16_384  # samples and queries that wait for a gateway
    xrce_tasks_len: int = 32 * 1024 * 1024  # and their octets; more are dropped, and counted
    xrce_answers_count: int = 16_384  # samples that one question of a device brings
    xrce_answers_len: int = 16 * 1024 * 1024  # and their octets; more are dropped, and counted
    xrce_durable_count: int = 100_000  # samples that outlive their writers
    xrce_durable_len: int = 256 * 1024 * 1024  # and their octets

    # DDS: what participants of a domain may make a bridge keep.
    dds_participants_count: int = 1_000  # of one domain; more are counted and not looked at
    dds_endpoints_count: int = 20_000  # writers and readers of one domain
    dds_participant_endpoints_count: int = 2_000  # and of one participant
    dds_routes_count: int = 10_000  # keys and types, each way counted; more are refused
    dds_partitions_count: int = 256  # mirrors of one reader in a pattern partition
    dds_types_count: int = 4_096  # fetched from peers
    dds_type_len: int = 1024 * 1024  # bytes of one type with all it depends on
    dds_type_members_count: int = 4_096  # of one type with all it depends on
    dds_type_depth: int = 32  # of types inside of types
    dds_reader_count: int = 8_192  # samples that a mirror reader keeps; then writers wait
    dds_writer_count: int = 1_024  # samples that a mirror writer keeps; then the line waits
    dds_sample_len: int = 64 * 1024 * 1024  # one sample; larger ones are dropped
    dds_line_count: int = 1_024  # samples of one route that wait to be written
    dds_line_len: int = 8 * 1024 * 1024  # and their bytes
    dds_cache_len: int = 256 * 1024 * 1024  # samples for late joiners, over all routes
    dds_cache_depth: int = 1_000  # and of one instance whose writer keeps all
    dds_other_puts_count: int = 10_000  # samples of other bridges that a durable route remembers
    dds_passed_count: int = 100_000  # of a key, remembered while other networks' bridges are there
    dds_instances_count: int = 100_000  # keys of instances that a route remembers
    dds_tokens_count: int = 10_000  # liveliness tokens of endpoints
    dds_queries_count: int = 32  # history queries at a time
    dds_queries_waiting_count: int = 1_000  # and those that wait; the oldest is dropped

    # REST: what somebody who speaks HTTP may hold (T54).
    web_connections_count: int = 256  # open at once; who waits makes room, then refused
    web_connections_per_address_count: int = 96  # of one IPv4 address or IPv6 /64; then refused
    web_waiting_count: int = 64  # that have not sent a whole request; the oldest makes room
    web_header_len: int = 16 * 1024  # request line and headers
    web_header_ns: int = 10_000_000_000  # from the connection to the end of the headers
    web_body_len: int = 1024 * 1024  # one body; larger ones are refused
    web_request_ns: int = 30_000_000_000  # to send a body, or to take an answer, over the query
    web_replies_count: int = 100_000  # replies of one query that wait to be sent
    web_replies_len: int = 64 * 1024 * 1024  # octets of all replies that wait to be sent
    web_streams_count: int = 64  # subscriptions by server-sent events
    web_streams_per_address_count: int = 32  # of one IPv4 address or IPv6 /64
    web_stream_queue_count: int = 1_024  # samples that wait for one slow browser
    web_stream_queue_len: int = 2 * 1024 * 1024  # octets of them
    web_streams_len: int = 32 * 1024 * 1024  # octets that wait for all browsers together
    web_stall_ns: int = 60_000_000_000  # a browser that takes nothing so long is let go
    web_workers_count: int = 8  # threads that wait for the session in place of the loop
    web_refusals_logged_count: int = 10  # per second; all are counted
    web_wrong_tokens_count: int = 10  # of one IPv4 address or IPv6 /64; then its tokens get 429
    web_wrong_tokens_ns: int = 60_000_000_000  # the time in which they are counted
    web_wrong_addresses_count: int = 1_024  # that are remembered; the oldest makes room

    # The page: what browsers that look at it may hold.
    ui_connections_count: int = 64  # live connections
    ui_connections_per_address_count: int = 16  # of one IPv4 address or IPv6 /64
    ui_tickets_count: int = 256  # for live connections, not used yet; the oldest is dropped
    ui_ticket_ns: int = 10_000_000_000  # how long a ticket is valid
    ui_hello_ns: int = 5_000_000_000  # from the connection to its first message
    ui_message_len: int = 16 * 1024  # one message of a browser
    ui_messages_count: int = 200  # of one browser in a second; then it is closed
    ui_wants_count: int = 32  # of one browser
    ui_credits_count: int = 2  # frames that a browser may ask for in advance
    ui_idle_ns: int = 10_000_000_000  # without asking for a frame: its subscribers are undeclared
    ui_silent_ns: int = 60_000_000_000  # without asking for a frame: it is closed
    ui_rows_count: int = 500  # rows of a tree or a list in one frame
    ui_watched_per_want_count: int = 200  # keys whose values one view shows
    ui_watched_count: int = 4_096  # keys whose values are watched for all browsers together
    ui_value_len: int = 64 * 1024  # bytes of a value that are kept and shown
    ui_lines_count: int = 400  # lines of a value that are shown
    ui_keys_count: int = 100_000  # declared keys in the tree; further ones are counted
    ui_replies_count: int = 200  # replies to the query form
    ui_replies_len: int = 1024 * 1024  # characters of them
    ui_history_count: int = 20_000  # versions of a key that one plot reads; the newest
    ui_history_len: int = 16 * 1024 * 1024  # bytes of them
    ui_histories_count: int = 4  # read at once
    ui_trails_count: int = 64  # keys of which plots show each new sample
    ui_trail_count: int = 1_024  # samples of one of them that wait for frames; the oldest go
    ui_trail_len: int = 4 * 1024  # bytes of a sample that is plotted
    ui_feed_count: int = 200  # events, audit lines or alerts that are shown
    ui_query_len: int = 16 * 1024  # the body of a request of the page


DEFAULT_LIMITS: Final = Limits()
