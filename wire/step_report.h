#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decimal.h"

/* Writes the JSON that reports a step: its events and its one result. Frontends call it; the golden
   files pin the bytes. Get the length first, then write exactly that many bytes, without a NUL,
   into the buffer that is sent; the write functions return the end. */

enum step_event_kind {
  STEP_EVENT_STARTED,
  STEP_EVENT_STDOUT,
  STEP_EVENT_STDERR,
  STEP_EVENT_COMPLETED
};

/* "2026-05-05T10:00:00.123+00:00" and a NUL. */
#define STEP_EVENT_TIMESTAMP_SIZE 30

enum step_access { STEP_ACCESS_READ, STEP_ACCESS_WRITE, STEP_ACCESS_NETWORK };

/* What a policy has denied to a step that failed. */
struct step_denial {
  enum step_access access;
  char *path; /* absolute; NULL: none, of STEP_ACCESS_NETWORK */
  bool is_certain;
};

#define STEP_DENIALS_MAX 8

/* How a step is confined: see PROTOCOL.md. The lists of words end with NULL. */
struct step_fence {
  int landlock;        /* the kernel's ABI; 0: none */
  const char *network; /* what counts in the end */
  const char *const *enforced, *const *missing;
  struct step_denial *denials; /* only in a result: at most STEP_DENIALS_MAX */
  size_t denial_count;
};

struct step_event {
  int schema_version; /* as of step_answer_version */
  enum step_event_kind kind;
  const char *step_id; /* as the content of a JSON string, escaped once per step */
  size_t step_id_length;
  const char *line; /* any bytes, without the line ending unless they are raw */
  size_t line_length;
  bool is_base64;                 /* `line` is raw output, which is encoded */
  bool partial;                   /* the line continues in the next event of this stream */
  const char *timestamp;          /* from step_event_timestamp */
  uint64_t seq;                   /* 1, 2, 3… within the step, so that readers notice a gap */
  const char *const *not_masked;  /* names of secrets that are not masked, ended by NULL; or NULL */
  const struct step_fence *fence; /* of STEP_EVENT_STARTED; NULL: the step is not confined */
};

/* Formats a time in milliseconds since 1970 (UTC), for the years 1970 to 9999. */
void step_event_timestamp(char out[STEP_EVENT_TIMESTAMP_SIZE], int64_t unix_ms);

size_t step_event_length(const struct step_event *self);
char *step_event_write(const struct step_event *self, char *at);

/* Returns the `seq` of an event in JSON, or -1 if the JSON is not an event of this step. `step_id`
   is the plain id, not its JSON form. Sets `*schema_version`, to 1 if it cannot be read. */
int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version);

/* The resources that all processes of a step used, orphans included; -1 if unknown. */
struct step_usage {
  int64_t max_rss_bytes; /* of the largest process */
  int64_t user_us, system_us;
  int64_t read_bytes, written_bytes; /* of storage, without hits in the page cache */
  int64_t major_faults;
  int64_t voluntary_switches, involuntary_switches;
  int64_t processes;
};

/* A process that was alive when its step was ended. */
#define STEP_PROCESS_COMMAND_SIZE 160
#define STEP_PROCESS_WAIT_SIZE 40
#define STEP_PROCESS_SYSCALL_SIZE 20
struct step_process {
  int64_t rss_bytes, cpu_ms, age_ms; /* -1 if unknown */
  int pid, parent;
  char state;                              /* as in proc(5) */
  char command[STEP_PROCESS_COMMAND_SIZE]; /* its arguments joined by spaces, or its name */
  char wait[STEP_PROCESS_WAIT_SIZE];       /* the kernel function it waits in; "" if it does not */
  char syscall[STEP_PROCESS_SYSCALL_SIZE]; /* the system call it waits in; "" if unknown */
};

enum step_cause {
  STEP_CAUSE_EXITED,
  STEP_CAUSE_SIGNAL,
  STEP_CAUSE_TIMEOUT,
  STEP_CAUSE_CANCELLED,
  STEP_CAUSE_MEMORY_LIMIT,
  STEP_CAUSE_PROCESS_LIMIT,
  STEP_CAUSE_CPU_LIMIT,       /* the kernel's signal for a limit of the step killed the command */
  STEP_CAUSE_FILE_SIZE_LIMIT, /* the same */
  STEP_CAUSE_NOT_STARTED,
  STEP_CAUSE_REFUSED, /* it was rejected */
  STEP_CAUSE_LOST     /* nobody knows whether it ran */
};

/* `end` of a result: why the step ended and what it used. Without `usage` it has only the cause;
   any figure may be unknown. */
struct result_end {
  enum step_cause cause;
  int signal; /* that killed the command; 0: none did */
  const char *signal_name;
  bool core_dumped;
  const struct step_usage *usage; /* NULL if nothing was executed */
  int64_t oom_kills;              /* in the container meanwhile; -1 if unknown */
  bool oom_killed;
  int64_t memory_limit_bytes; /* of the container; -1 if there is none or it is unknown */
  int64_t memory_peak_bytes;  /* of the container if it has grown meanwhile; else -1 */
  int64_t survivors;          /* living processes of the step */
  int holder;                 /* one of them that holds the output open; 0 if there is none */
  const char *holder_command;
  const struct step_process *alive; /* when the step was ended */
  size_t alive_count;
};

/* A result. Texts may be any bytes; NULL becomes null. */
struct step_result {
  int schema_version; /* as of step_answer_version */
  const char *step_id;
  int exit_code;
  bool timed_out;
  int64_t duration_ms;
  const char *error_message;
  size_t error_message_length;
  const char *output_content;
  size_t output_content_length;
  int64_t event_count; /* including `completed`; -1 (unknown) becomes null */
  bool is_raw;         /* output_bytes is that of raw output, without output_content */
  /* If output_content is truncated: the end of the output and its total length. Else NULL. */
  const char *output_tail;
  size_t output_tail_length;
  uint64_t output_bytes;
  struct result_end end;
  const struct step_fence *fence; /* NULL: it has nothing to report */
};

/* Returns a result of the agent itself: exit code -1 with a reason, no events, no output. */
struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        enum step_cause cause, const char *reason);

size_t step_result_length(const struct step_result *self);
char *step_result_write(const struct step_result *self, char *at);

/* Writes a duration in seconds with at most three decimals, no trailing zeros and a NUL: 600, 1.23,
   0.012. */
#define STEP_RESULT_SECONDS_SIZE (DECIMAL_LENGTH_MAX + sizeof ".123")
void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms);
