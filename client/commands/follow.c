/* follow: shows the events of one step, or of all steps of a job, and changes nothing. history.h
   finds the event to begin with. The table `actions` says what follows in each state. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/screen/figure.h"
#include "client/signals.h"
#include "client/steps/history.h"
#include "client/steps/outcome.h"
#include "client/steps/raw_text.h"
#include "client/steps/recording.h"
#include "client/steps/step_watch.h"

/* The most steps that are remembered. The oldest one, which never ended, is forgotten first. */
#define STEPS_MAX 64

/* The most bytes of a command in a message. */
#define COMMAND_MAX 60

/* What an action returns if the wait continues. */
#define GO_ON (-1)

/* A step that has begun and not ended. */
struct followed {
  char id[HISTORY_ID_SIZE];
  char name[HISTORY_ID_SIZE]; /* the shortest unique prefix of the id */
  unsigned number;            /* 1, 2, …: chooses its color */
  uint64_t seq;               /* of its last event; 0: none was seen */
  int64_t started_ms;         /* 0: unknown */
  struct raw_text raw[2];     /* of standard output and standard error */
};

enum follow_state {
  FOLLOW_ALL,    /* every step of the job */
  FOLLOW_WAITS,  /* one step, of which no event was seen */
  FOLLOW_RUNS,   /* one step, of which events were seen */
  FOLLOW_ENDED,  /* that step has completed */
  FOLLOW_FAILED, /* `error` says why */
  FOLLOW_STATES
};

struct follow {
  enum follow_state state;
  struct program *program;
  struct history_query query;
  bool all, timestamps;
  const char *html, *cast; /* the files to write, or NULL */
  struct history history;
  struct step_watch watch;
  struct followed steps[STEPS_MAX];
  size_t count;
  unsigned numbers;
  unsigned open[2];  /* whose line is open on standard output and standard error; 0: none */
  bool has_colors;   /* the open line has set colors */
  int64_t newest_ms; /* the time of the newest event that was seen */
  struct outcome outcome;
  struct recording recordings[2];
  size_t recording_count;
  struct error error;
};

/* --- steps ------------------------------------------------------------------------------------ */

static void name_step(struct follow *self, struct followed *step) {
  size_t length = 4;
  for (size_t i = 0; i < self->count; i++)
    while (length < strlen(step->id) && strncasecmp(self->steps[i].id, step->id, length) == 0)
      length++;
  (void)snprintf(step->name, sizeof step->name, "%.*s", (int)length, step->id);
}

static void forget_step(struct follow *self, struct followed *step) {
  size_t at = (size_t)(step - self->steps);
  memmove(step, step + 1, (self->count - at - 1) * sizeof *step);
  self->count--;
}

static struct followed *find_step(struct follow *self, const struct event_view *view) {
  for (size_t i = 0; i < self->count; i++)
    if (event_is_of(view, self->steps[i].id))
      return &self->steps[i];
  return NULL;
}

static struct followed *add_step(struct follow *self, const char *id, size_t length) {
  if (self->count == STEPS_MAX)
    forget_step(self, &self->steps[0]);
  struct followed step = {.number = ++self->numbers};
  (void)snprintf(step.id, sizeof step.id, "%.*s", (int)length, id);
  name_step(self, &step);
  self->steps[self->count] = step;
  return &self->steps[self->count++];
}

/* --- output ----------------------------------------------------------------------------------- */

static void put(struct follow *self, bool to_stderr, const char *text, size_t length) {
  if (terminal_put(&self->program->terminal, to_stderr, text, length) != 0)
    self->watch.output = WATCH_OUTPUT_LOST;
}

static void put_text(struct follow *self, bool to_stderr, const char *text) {
  put(self, to_stderr, text, strlen(text));
}

static void end_line(struct follow *self, bool to_stderr) {
  if (self->has_colors)
    put_text(self, to_stderr, terminal_color(&self->program->terminal, to_stderr, COLOR_NONE));
  put_text(self, to_stderr, "\n");
  self->open[to_stderr] = 0;
  self->has_colors = false;
}

/* On a terminal, anything else must begin on a new line. */
static void end_open_lines(struct follow *self) {
  for (int to_stderr = 0; to_stderr < 2; to_stderr++)
    if (self->open[to_stderr] != 0 && self->program->terminal.is_tty[to_stderr])
      end_line(self, to_stderr);
}

static void begin_line(struct follow *self, const struct followed *step,
                       const struct event_view *view, bool to_stderr) {
  static const char *const colors[] = {"\x1b[36m", "\x1b[32m", "\x1b[33m",
                                       "\x1b[35m", "\x1b[34m", "\x1b[31m"};
  const struct terminal *terminal = &self->program->terminal;
  bool has_colors = terminal->has_colors[to_stderr];
  if (self->all) {
    put_text(self, to_stderr, has_colors ? colors[(step->number - 1) % 6] : "");
    put_text(self, to_stderr, step->name);
    put_text(self, to_stderr, "│ ");
    put_text(self, to_stderr, terminal_color(terminal, to_stderr, COLOR_NONE));
  }
  if (self->timestamps) {
    put(self, to_stderr, view->timestamp, view->timestamp_length);
    put_text(self, to_stderr, " ");
  }
  if (self->all && to_stderr) {
    put_text(self, to_stderr, terminal_color(terminal, to_stderr, COLOR_DIM));
    self->has_colors = true;
  }
}

static void show_line(struct follow *self, const struct followed *step,
                      const struct event_view *view) {
  struct terminal *terminal = &self->program->terminal;
  const bool to_stderr = view->kind == STEP_EVENT_STDERR;
  const bool is_open = self->open[to_stderr] == step->number;
  if (terminal->is_tty[0] && terminal->is_tty[1] && self->open[!to_stderr] != 0)
    end_line(self, !to_stderr);
  if (self->open[to_stderr] != 0 && !is_open)
    end_line(self, to_stderr);
  if (!is_open)
    begin_line(self, step, view, to_stderr);
  self->has_colors |= self->all && memchr(view->line, '\x1b', view->line_length) != NULL;
  put(self, to_stderr, view->line, view->line_length);
  self->open[to_stderr] = step->number;
  if (!view->partial)
    end_line(self, to_stderr);
}

static void show_command(struct follow *self, const struct followed *step,
                         const struct event_view *view) {
  struct buffer text = {0};
  size_t shown =
      view->line_length < COMMAND_MAX ? view->line_length : utf8_cut(view->line, COMMAND_MAX);
  if (!self->program->terminal.is_tty[1] || self->query.id != NULL)
    return;
  end_open_lines(self);
  printable_add(&text, view->line, shown);
  terminal_say(&self->program->terminal, COLOR_DIM, "%s %.*s", step->name, (int)text.length,
               text.length > 0 ? text.bytes : "");
  buffer_release(&text);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Counts the events that were trimmed before this one. Steps run one after the other, so only the
   first one that is seen may have begun before the first event that is shown. */
static uint64_t count_missed(const struct follow *self, const struct followed *step, uint64_t seq) {
  const uint64_t before = step->seq > 0 ? step->seq : 1; /* the first event is `started` */
  const bool is_cut = step->seq == 0 && step->number == 1 && self->history.is_cut;
  return !is_cut && seq > before ? seq - before - 1 : 0;
}

static void record(struct follow *self, const struct event_view *view, const char *note) {
  for (size_t i = 0; i < self->recording_count && self->state != FOLLOW_FAILED; i++)
    if (recording_add(&self->recordings[i], view, note, &self->error) != 0)
      self->state = FOLLOW_FAILED;
}

static void end_step(struct follow *self, struct followed *step, const struct event_view *view) {
  struct completion completion;
  int64_t now_ms;
  if (!event_read_completed(view, &completion))
    return;
  self->outcome = outcome_make(NULL, completion, false);
  if (completion.exit_code < 0 && !completion.timed_out)
    (void)snprintf(self->outcome.text, sizeof self->outcome.text, "was cancelled, or not started");
  if (step->started_ms != 0 && event_read_time(view, &now_ms))
    self->outcome.seconds = (double)(now_ms - step->started_ms) / 1000;
  if (!self->program->json) {
    end_open_lines(self);
    terminal_reset_colors(&self->program->terminal);
    outcome_say(self->program, step->name, &self->outcome);
  }
  if (self->state == FOLLOW_RUNS)
    self->state = FOLLOW_ENDED;
  forget_step(self, step);
}

/* Standard error says it also with -q and --json. The note is for recordings. */
static void show_missed(struct follow *self, uint64_t missed, char note[64]) {
  const struct figure count = figure_count((int64_t)missed);
  (void)snprintf(note, 64, "… %s line%s trimmed …", count.text, missed == 1 ? " was" : "s were");
  if (!self->program->json)
    end_open_lines(self);
  if (self->program->access->missed_cause == NULL)
    terminal_error(&self->program->terminal, "%llu line%s missing", (unsigned long long)missed,
                   missed == 1 ? " is" : "s are");
  else
    terminal_error(&self->program->terminal, "%s line%s missing: %s", count.text,
                   missed == 1 ? " is" : "s are", self->program->access->missed_cause);
}

static void show_event(struct follow *self, struct followed *step, const struct event_view *view) {
  if (self->program->json) {
    if (terminal_put_json(&self->program->terminal, view->json, view->length) != 0)
      self->watch.output = WATCH_OUTPUT_LOST;
  } else if (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR) {
    show_line(self, step, view);
  } else if (view->kind == STEP_EVENT_STARTED) {
    show_command(self, step, view);
  }
}

/* Shows and records text of raw output line by line. */
static void show_text(struct follow *self, struct followed *step, const struct event_view *view,
                      const struct buffer *text, const char *note) {
  struct event_view part = *view;
  for (size_t at = 0; at < text->length; at += part.line_length + !part.partial) {
    part.line = text->bytes + at;
    const char *feed = memchr(part.line, '\n', text->length - at);
    part.partial = feed == NULL;
    part.line_length = feed != NULL ? (size_t)(feed - part.line) : text->length - at;
    if (self->history.skip > 0 && feed != NULL) {
      self->history.skip--;
      continue;
    }
    show_event(self, step, &part);
    record(self, &part, note);
    note = NULL;
  }
  self->history.skip = 0;
}

static void show_raw(struct follow *self, struct followed *step, const struct event_view *view,
                     const char *note) {
  struct buffer text = {0};
  raw_text_add(&step->raw[view->kind == STEP_EVENT_STDERR], view->line, view->line_length, &text);
  show_text(self, step, view, &text, note);
  buffer_release(&text);
}

/* Whether the stream is read again, and had this event before. It is of no running step: of those,
   `seq` says which events were seen. */
static bool is_repeated(const struct follow *self, const struct event_view *view, int64_t unix_ms) {
  return entry_compare(view->entry, self->watch.again) <= 0 && unix_ms <= self->newest_ms;
}

static void on_event(void *owner, const struct event_view *view) {
  struct follow *self = owner;
  char note[64];
  if (self->state >= FOLLOW_ENDED || view->step_id_length >= HISTORY_ID_SIZE ||
      (self->state != FOLLOW_ALL && !event_is_of(view, self->history.id)))
    return;
  int64_t unix_ms = INT64_MAX;
  const bool has_time = event_read_time(view, &unix_ms);
  struct followed *step = find_step(self, view);
  if (step == NULL && is_repeated(self, view, unix_ms))
    return;
  if (has_time && unix_ms > self->newest_ms)
    self->newest_ms = unix_ms;
  if (step == NULL)
    step = add_step(self, view->step_id, view->step_id_length);
  if (view->seq != 0 && view->seq <= step->seq)
    return;
  if (self->state == FOLLOW_WAITS) {
    self->state = FOLLOW_RUNS;
    step_watch_set_started(&self->watch);
  }
  const uint64_t missed = count_missed(self, step, view->seq);
  step->seq = view->seq;
  if (view->kind == STEP_EVENT_STARTED && has_time)
    step->started_ms = unix_ms;
  if (missed > 0)
    show_missed(self, missed, note);
  if (view->is_raw && !self->program->json) {
    show_raw(self, step, view, missed > 0 ? note : NULL);
    return;
  }
  show_event(self, step, view);
  record(self, view, missed > 0 ? note : NULL);
  if (view->kind == STEP_EVENT_COMPLETED)
    end_step(self, step, view);
}

static void on_turn(void *owner) {
  struct follow *self = owner;
  if (terminal_flush(&self->program->terminal) != 0)
    self->watch.output = WATCH_OUTPUT_LOST;
}

static void on_failed(void *owner, const char *why) {
  struct follow *self = owner;
  (void)error_set(&self->error, "cannot read the events: %s", why);
  self->state = FOLLOW_FAILED;
}

static const struct step_watch_handler watch_handler = {
    .event = on_event, .turn = on_turn, .failed = on_failed};

/* --- actions ---------------------------------------------------------------------------------- */

static int obey_signal(struct follow *self) {
  const int signal = step_watch_take_signal(&self->watch);
  terminal_status(&self->program->terminal, "");
  signals_end_key_line(signal);
  return 128 + signal;
}

static int stop_unread(struct follow *self) {
  (void)self;
  return 128 + SIGPIPE;
}

static int fail(struct follow *self, const char *why) {
  end_open_lines(self);
  terminal_error(&self->program->terminal, "%s %s", job_shorten(self->history.id).text, why);
  return EXIT_CLIENT;
}

/* The step has left the lists, and none of its events was `completed`. */
static int conclude(struct follow *self) {
  return fail(self, "has ended, but no event says how: "
                    "it was interrupted, cancelled before it ran, or lost");
}

static int warn(struct follow *self) {
  end_open_lines(self);
  step_watch_warn_of_agent(&self->watch);
  return GO_ON;
}

static int fail_agent(struct follow *self) {
  end_open_lines(self);
  return step_watch_fail_agent(&self->watch);
}

static int fail_peer(struct follow *self) {
  end_open_lines(self);
  return step_watch_fail_peer(&self->watch);
}

typedef int action(struct follow *self);

/* Without an action, the wait goes on, or the step is over. */
/* clang-format off */
static action *const actions[FOLLOW_STATES][WATCH_REPORTS] = {
    /*                nothing  signal       output gone  absent    agent away, gone  peer gone */
    [FOLLOW_ALL] =    {NULL,   obey_signal, stop_unread, NULL,     warn, NULL,       fail_peer},
    [FOLLOW_WAITS] =  {NULL,   obey_signal, stop_unread, conclude, warn, NULL,       fail_peer},
    [FOLLOW_RUNS] =   {NULL,   obey_signal, stop_unread, conclude, warn, fail_agent, fail_peer},
    [FOLLOW_ENDED] =  {NULL,   obey_signal, stop_unread},
    [FOLLOW_FAILED] = {NULL,   obey_signal, stop_unread},
};
/* clang-format on */

static int wait_for_end(struct follow *self) {
  int code = GO_ON;
  while (code == GO_ON && self->state < FOLLOW_ENDED) {
    const enum watch_report report = step_watch_turn(&self->watch);
    action *const act = actions[self->state][report];
    code = act != NULL ? act(self) : GO_ON;
  }
  terminal_status(&self->program->terminal, "");
  if (code != GO_ON)
    return code;
  end_open_lines(self);
  for (size_t i = 0; i < self->recording_count && self->state != FOLLOW_FAILED; i++)
    if (recording_finish(&self->recordings[i], self->outcome.text, &self->error) != 0)
      self->state = FOLLOW_FAILED;
  return self->state == FOLLOW_FAILED ? terminal_fail(&self->program->terminal, &self->error)
                                      : self->outcome.code;
}

/* --- the beginning ---------------------------------------------------------------------------- */

static int begin_recording(struct follow *self, enum recording_format format, const char *path,
                           struct error *error) {
  if (path == NULL)
    return 0;
  const struct recording *other = self->recording_count > 0 ? &self->recordings[0] : NULL;
  return recording_begin(&self->recordings[self->recording_count++], format, path, other,
                         self->program->job, self->history.id, error);
}

static int begin(struct follow *self, struct error *error) {
  const bool has_id = self->query.id != NULL;
  if (history_find(self->program, &self->query, &self->history, error) != 0 ||
      begin_recording(self, RECORDING_PAGE, self->html, error) != 0 ||
      begin_recording(self, RECORDING_CAST, self->cast, error) != 0)
    return -1;
  memcpy(self->watch.last, self->history.after, sizeof self->watch.last);
  self->watch.output = WATCH_OUTPUT_READ;
  step_watch_expect(&self->watch, has_id ? self->history.id : NULL);
  self->state = has_id ? FOLLOW_WAITS : FOLLOW_ALL;
  self->newest_ms = self->history.unix_ms;
  /* If no old events are shown, the newest one says which seq comes next. */
  const bool shows_old = strcmp(self->history.after, self->history.newest) != 0;
  if (!has_id && !shows_old && self->history.id[0] != '\0')
    add_step(self, self->history.id, strlen(self->history.id))->seq = self->history.seq;
  return 0;
}

static int follow_steps(struct follow *self) {
  struct error error;
  int code;
  step_watch_begin(&self->watch, self->program, &watch_handler, self);
  step_watch_catch_signals(&self->watch);
  if (begin(self, &error) == 0) {
    step_watch_read(&self->watch);
    code = wait_for_end(self);
  } else {
    code = self->program->signal != 0 ? obey_signal(self)
                                      : terminal_fail(&self->program->terminal, &error);
  }
  while (self->recording_count > 0)
    recording_release(&self->recordings[--self->recording_count]);
  step_watch_end(&self->watch);
  return code;
}

/* --- options ---------------------------------------------------------------------------------- */

/* Parses an age such as 30s, 5m, 2h or 1d. */
static bool parse_age(const char *text, int64_t *age_ms) {
  static const char units[] = "smhd";
  static const int64_t seconds[] = {1, 60, 3600, 86400};
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
  if (text[0] < '0' || text[0] > '9' || unit == NULL || end[1] != '\0' || number > 100000000)
    return false;
  *age_ms = (int64_t)number * seconds[unit - units] * 1000;
  return true;
}

static bool parse_lines(const char *text, uint64_t *lines) {
  char *end;
  *lines = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static bool set_option(struct follow *self, int flag) {
  struct history_query *query = &self->query;
  if (flag == 'n' && !(query->has_lines = parse_lines(optarg, &query->lines)))
    return options_fail(self->program, "-n: not a number: '%.60s'", optarg);
  if (flag == 'S' && !(query->has_age = parse_age(optarg, &query->age_ms)))
    return options_fail(self->program, "--since: not an age such as 30s, 5m, 2h or 1d: '%.60s'",
                        optarg);
  self->all |= flag == 'A';
  self->timestamps |= flag == 'T';
  self->html = flag == 'H' ? optarg : self->html;
  self->cast = flag == 'C' ? optarg : self->cast;
  return true;
}

/* Returns false after wrong usage. */
static bool read_options(struct follow *self, int argc, char **argv) {
  static const struct option flags[] = {
      {"since", required_argument, NULL, 'S'}, {"all", no_argument, NULL, 'A'},
      {"timestamps", no_argument, NULL, 'T'},  {"html", required_argument, NULL, 'H'},
      {"cast", required_argument, NULL, 'C'},  {NULL, 0, NULL, 0}};
  static const char *const names[] = {"ID"};
  int flag;
  optind = 0;
  while ((flag = options_next(self->program, argc, argv, "n:", flags)) >= 0)
    if (!set_option(self, flag))
      return false;
  if (flag == OPTIONS_STOP || !options_words(self->program, argc, argv, 0, 1, names))
    return false;
  self->query.id = argv[optind];
  self->query.one_step = !self->all;
  if (self->query.id == NULL && (self->html != NULL || self->cast != NULL))
    return options_fail(self->program, "%s needs the ID of a step",
                        self->html != NULL ? "--html" : "--cast");
  return self->query.id == NULL || !self->all ||
         options_fail(self->program, "--all takes no ID: '%.60s'", self->query.id);
}

int follow_command(struct program *program, int argc, char **argv) {
  struct follow self = {.program = program};
  if (!read_options(&self, argc, argv))
    return COMMAND_USAGE;
  const int code = program_begin_job(program);
  return code == 0 ? follow_steps(&self) : code;
}
