#ifndef WIRE_STEP_REPORT_H
#define WIRE_STEP_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/decimal.h"

enum step_event_kind {
  STEP_EVENT_STARTED,
  STEP_EVENT_STDOUT,
  STEP_EVENT_STDERR,
  STEP_EVENT_COMPLETED
};

/* "2026-05-05T10:00:00.123+00:00" and a NUL. */
#define STEP_EVENT_TIMESTAMP_SIZE 30

/* What is reported of a step, as JSON: events and one result. First get the length, then write
   exactly that many bytes, without a NUL after them, straight into the buffer that is sent; returns
   the end. */

/* One StepEvent. Owns nothing: what it points to must be valid during the calls below. */
struct step_event {
  int schema_version; /* 1 or 2: step_answer_version */
  enum step_event_kind kind;
  const char *step_id; /* already the inside of a JSON string: escape it once per step */
  size_t step_id_length;
  const char *line; /* any bytes, without its line ending */
  size_t line_length;
  bool partial;          /* the line continues in this stream's next event: "partial":true */
  const char *timestamp; /* from step_event_timestamp */
  uint64_t seq;          /* 1, 2, 3… within the step: a reader detects a gap */
  const char *const *not_masked; /* names of secrets that are not, ended by NULL; NULL: none */
};

/* Formats a time (milliseconds since 1970, UTC), years 1970 to 9999. */
void step_event_timestamp(char out[STEP_EVENT_TIMESTAMP_SIZE], int64_t unix_ms);

size_t step_event_length(const struct step_event *self);
char *step_event_write(const struct step_event *self, char *at);

/* Reads the seq of an event, JSON of `length` bytes, and its schemaVersion, which is 1 where it
   cannot be read. Returns -1 when it is not an event of this step (`step_id` is not escaped). */
int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version);

/* What the processes of a step have used, those that others have reaped included. -1: not known. */
struct step_usage {
  int64_t max_rss_bytes; /* of the largest process */
  int64_t user_us, system_us;
  int64_t read_bytes, written_bytes; /* of storage: what the page cache had is not read */
  int64_t major_faults;
  int64_t voluntary_switches, involuntary_switches;
  int64_t processes;
};

/* A process that was there when its step was ended. */
#define STEP_PROCESS_COMMAND_SIZE 160
#define STEP_PROCESS_WAIT_SIZE 40
#define STEP_PROCESS_SYSCALL_SIZE 20
struct step_process {
  int64_t rss_bytes, cpu_ms, age_ms; /* -1: not known */
  int pid, parent;
  char state;                              /* of proc(5) */
  char command[STEP_PROCESS_COMMAND_SIZE]; /* its arguments with spaces between them, or its name */
  char wait[STEP_PROCESS_WAIT_SIZE];       /* where in the kernel it waits; "": nowhere */
  char syscall
      [STEP_PROCESS_SYSCALL_SIZE]; /* that it waits in; "": none, or one without a name here */
};

enum step_cause {
  STEP_CAUSE_EXITED,
  STEP_CAUSE_SIGNAL,
  STEP_CAUSE_TIMEOUT,
  STEP_CAUSE_CANCELLED,
  STEP_CAUSE_MEMORY_LIMIT,
  STEP_CAUSE_NOT_STARTED,
  STEP_CAUSE_REFUSED, /* it was never taken */
  STEP_CAUSE_LOST     /* nobody knows whether it ran */
};

/* `end` of a result: why the step has ended, and what it has cost. Without a usage: the cause
   alone; the figures of one may be unknown, all of them too. */
struct result_end {
  enum step_cause cause;
  int signal; /* of CAUSE_SIGNAL, by its number */
  const char *signal_name;
  bool core_dumped;
  const struct step_usage *usage; /* NULL: nothing was executed */
  int64_t oom_kills;              /* in the container while it ran; -1: not known */
  bool oom_killed;
  int64_t memory_limit_bytes; /* of the container; -1: none, or not known */
  int64_t memory_peak_bytes;  /* the same, when it has grown meanwhile; else -1 */
  int64_t survivors;          /* processes of the step that are alive */
  int holder;                 /* one of them that has its output; 0: nobody */
  const char *holder_command;
  const struct step_process *alive; /* when it was ended */
  size_t alive_count;
};

/* One StepResult. Owns nothing. Texts may be any bytes; NULL becomes JSON's null. */
struct step_result {
  int schema_version; /* 1 or 2: step_answer_version */
  const char *step_id;
  int exit_code;
  bool timed_out;
  int64_t duration_ms;
  const char *error_message;
  size_t error_message_length;
  const char *output_content;
  size_t output_content_length;
  int64_t event_count; /* events of the step, `completed` included; -1, not known, becomes null */
  /* Where output_content is not all: how many bytes all has, and its end. NULL: it is all. */
  const char *output_tail;
  size_t output_tail_length;
  uint64_t output_bytes;
  struct result_end end;
};

/* An answer of the agent's own: -1, and why. No events, no output. */
struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        enum step_cause cause, const char *reason);

size_t step_result_length(const struct step_result *self);
char *step_result_write(const struct step_result *self, char *at);

/* Writes a duration in seconds with up to three decimals, without trailing zeros, and a NUL: 600,
   1.23, 0.012. */
#define STEP_RESULT_SECONDS_SIZE (DECIMAL_LENGTH_MAX + sizeof ".123")
void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms);

#endif
