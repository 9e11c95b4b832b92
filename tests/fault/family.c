#include "tests/fault/family.h"

const struct family families[] = {
    {"cut-request", cut_request, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 31}},
    {"cut-reply", cut_reply, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 11}},
    {"swallow-reply", cut_swallowed_reply, .by_byte = true, .by_role = true, .shares_server = true,
     .amount = {1, 11}},
    {"cut-again", cut_again, .shares_server = true, .amount = {1000, 100}},
    {"cut-flood", cut_flood, .shares_server = true, .amount = {300, 30}},
    {"cut-beat", cut_beat, .shares_server = true, .amount = {720, 24}},
    {"kill-redis", restart_kept, .amount = {40, 6}},
    {"restart-empty", restart_empty, .amount = {40, 6}},
    {"restart-snapshot", restart_snapshot, .amount = {40, 6}},
    {"restart-repeatedly", restart_repeatedly, .amount = {120, 12}},
    {"freeze", server_freeze, .amount = {2, 1}},
    {"half-open", network_half_open, .by_role = true, .amount = {3, 1}},
    {"latency", network_latency, .amount = {4, 1}},
    {"client-kill", network_client_kill, .amount = {2, 1}},
    {"maxmemory", server_maxmemory, .amount = {4, 1}},
    {"failover", server_failover, .amount = {10, 2}},
    {"kill-agent", kill_agent, .shares_server = true, .cuts = {300, 30}},
};
const size_t families_count = sizeof families / sizeof *families;
