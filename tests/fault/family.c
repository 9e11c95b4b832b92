#include "tests/fault/family.h"

/* Over TLS, every byte of a record is equivalent to the others, so there are fewer trials. The
   short selection has those that break a connection. */
const struct family families[] = {
    {"cut-request", cut_request, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 31}, .over_tls = {5, 401}},
    {"cut-reply", cut_reply, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 11}, .over_tls = {5, 0}},
    {"swallow-reply", cut_swallowed_reply, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 11}, .over_tls = {5, 0}},
    {"cut-again", cut_again, .shares_server = true, .amount = {1000, 100}, .over_tls = {1000, 60}},
    {"cut-flood", cut_flood, .shares_server = true, .amount = {300, 30}, .over_tls = {300, 15}},
    {"cut-beat", cut_beat, .shares_server = true, .amount = {720, 24}, .over_tls = {240, 0}},
    {"kill-redis", restart_kept, .amount = {40, 6}, .over_tls = {40, 3}},
    {"restart-empty", restart_empty, .amount = {40, 6}, .over_tls = {40, 3}},
    {"restart-snapshot", restart_snapshot, .amount = {40, 6}, .over_tls = {40, 3}},
    {"restart-repeatedly", restart_repeatedly, .amount = {120, 12}, .over_tls = {120, 6}},
    {"freeze", server_freeze, .amount = {2, 1}, .over_tls = {2, 0}},
    {"half-open", network_half_open, .by_role = true, .amount = {3, 1}, .over_tls = {3, 0}},
    {"latency", network_latency, .amount = {4, 1}, .over_tls = {4, 0}},
    {"client-kill", network_client_kill, .amount = {2, 1}, .over_tls = {2, 0}},
    {"flow-control", read_with_flow_control, .amount = {40, 3}, .over_tls = {20, 0}},
    {"maxmemory", server_maxmemory, .amount = {4, 1}, .over_tls = {4, 0}},
    {"failover", server_failover, .amount = {10, 2}, .over_tls = {10, 0}},
    {"kill-agent", kill_agent, .shares_server = true, .by_cuts = true, .amount = {300, 30},
     .over_tls = {300, 0}},
    {"kill-supervisor", kill_supervisor, .shares_server = true, .by_cuts = true,
     .amount = {600, 60}},
    {"stop-supervisor", stop_supervisor, .shares_server = true, .by_cuts = true,
     .amount = {600, 60}},
    {"orphan-supervisor", orphan_supervisor, .shares_server = true, .by_cuts = true,
     .amount = {300, 30}},
};
const size_t families_count = sizeof families / sizeof *families;
