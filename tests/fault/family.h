#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tests/fault/trial.h"

/*
 * A family is one kind of fault, which many trials produce at different times.
 */
struct family {
  const char *name;
  void (*run)(struct trial *trial); /* in the trial's process; fills the trial's tally */
  bool by_byte;       /* numbers are bytes 1, 2, 3 … until nothing is cut; otherwise seeds */
  bool by_role;       /* the trials are for each of the two connections */
  bool shares_server; /* the trials need no separate server */
  bool by_cuts;       /* the number of trials depends on the number of cuts */
  long amount[2];     /* all, short: every n-th byte, the number of trials, or the number of cuts */
  long over_tls[2];   /* the same over TLS; 0: none */
};

extern const struct family families[];
extern const size_t families_count;

/* The functions that run a trial, by file. */
void cut_request(struct trial *trial);
void cut_reply(struct trial *trial);
void cut_swallowed_reply(struct trial *trial);
void cut_again(struct trial *trial);
void cut_flood(struct trial *trial);

void cut_beat(struct trial *trial);

void network_half_open(struct trial *trial);
void network_latency(struct trial *trial);
void network_client_kill(struct trial *trial);

void read_with_flow_control(struct trial *trial);

void restart_kept(struct trial *trial);
void restart_empty(struct trial *trial);
void restart_snapshot(struct trial *trial);
void restart_repeatedly(struct trial *trial);

void server_freeze(struct trial *trial);
void server_maxmemory(struct trial *trial);
void server_failover(struct trial *trial);

void kill_agent(struct trial *trial);

void kill_supervisor(struct trial *trial);
void stop_supervisor(struct trial *trial);
void orphan_supervisor(struct trial *trial);
