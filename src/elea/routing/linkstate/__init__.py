"""Link state: how nodes learn of each other, and the trees along which routers talk.

Read in this order:

    graph, network   A node describes itself and its links under a number that only grows.
                     Descriptions flood the network; the newest one of each node wins.
    trees, paths     From these descriptions every router computes the same shortest-path tree for
                     every router: one search from itself and one from each neighbour are enough.
    subtrees         Which routers lie below a child takes one search per source, in bounded turns.
    routers          The network of routers: when to compute, and what the trees answer.
    flooding         Declarations of a router travel down its tree; each other router is an owner in
                     the tables, believed in the words of the parent on that tree.
    gossip           Peers introduce those they are connected to, over one hop;
    multihop         over several hops, every node hands descriptions on.
    south_gossip     A router introduces the peers below it to each other.
    gateways         Of several routers that a peer has, one forwards for it.
"""
