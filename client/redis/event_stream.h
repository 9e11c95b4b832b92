#pragma once

#include "client/access.h"

/* The events of a job in Redis, where they are a stream with a bounded number of entries. Others may
   write to it, trim or delete it. access.h explains the functions, which belong to its table. */
void *event_stream_open(struct step_watch *watch);
void event_stream_close(void *source);
void event_stream_read(void *source);
void event_stream_expect(void *source);
void event_stream_acknowledge(void *source, uint64_t seq);
enum watch_report event_stream_check(void *source);
int event_stream_read_newest(struct program *program, struct history *history, struct error *error);
int event_stream_scan(struct program *program, const char *prefix, event_visitor *visit,
                      void *owner, struct error *error);
int64_t event_stream_read_clock(struct program *program);
int event_stream_find_started(struct program *program, const char *id, struct started *started,
                              struct error *error);

/* The same for any job. */
int event_stream_find_started_of(struct program *program, const char *events_key, const char *id,
                                 struct started *started, struct error *error);

/* Fails if a right is missing that a step with its events and its result needs. */
int event_stream_check_rights(void *source, struct error *error);
