/*
 * Shows the events of the steps of a job, of all or of one, and pushes nothing. What is there
 * already is shown as far as it was asked for: past.h says where that begins.
 */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/program.h"
#include "client/redis/job.h"
#include "client/screen/figure.h"
#include "client/screen/recording.h"
#include "client/steps/event_stream.h"
#include "client/steps/history.h"
#include "client/steps/outcome.h"

/* How often it is looked whether the step goes on, and whether Redis is there. */
#define LOOK_MS 2000
#define TICK_MS 500

/* After that an agent without a heartbeat is gone. */
#define AGENT_GONE_MS 60000

/* Steps that are known at the same time: of one that has never ended the oldest is forgotten. */
#define STEPS_MAX 64

/* Of a command in what is said of a step. */
#define COMMAND_MAX 60

struct follow_options {
  struct history_query past;
  bool all, timestamps;
  const char *html, *cast;
};

/* One that has begun, and not ended. */
struct followed {
  char id[HISTORY_ID_SIZE];
  char name[HISTORY_ID_SIZE]; /* a beginning of the id that no other has */
  unsigned number;            /* 1, 2, …: of its colour */
  uint64_t seq;               /* of its last event; 0: none was seen */
  int64_t started_ms;         /* 0: not known */
};

struct follow {
  struct program *program;
  const struct follow_options *options;
  struct history past;
  struct pipeline *reader;
  struct event_stream stream;
  struct followed steps[STEPS_MAX];
  size_t count;
  unsigned numbers;
  unsigned
      open[2];     /* the step whose line goes on, on standard output and standard error; 0: none */
  bool was_stderr; /* what was shown last */
  bool has_colors; /* a line has set some */
  int signal_fd;   /* -1: signals end the process themselves */
  struct event *signals, *tick;
  int signal; /* that came; 0: none */
  bool is_over, is_unread;
  char *failed; /* why the stream cannot be read; NULL: it can */
  int64_t looked_ms, beat_ms;
  bool is_gone; /* the step neither waits nor runs */
  struct job_place place;
  char gone[ENTRY_SIZE]; /* by this event it has ended, then */
  struct outcome outcome;
  struct recording recordings[2];
  size_t recording_count;
  bool cannot_record;
  struct error error; /* why not */
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

static struct followed *find_step(struct follow *self, const char *id, size_t length) {
  for (size_t i = 0; i < self->count; i++)
    if (strlen(self->steps[i].id) == length && strncasecmp(self->steps[i].id, id, length) == 0)
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

/* --- what is shown ---------------------------------------------------------------------------- */

static void put(struct follow *self, bool to_stderr, const char *text, size_t length) {
  if (terminal_put(&self->program->terminal, to_stderr, text, length) != 0)
    self->is_unread = true;
}

static void put_text(struct follow *self, bool to_stderr, const char *text) {
  put(self, to_stderr, text, strlen(text));
}

static bool is_tty(const struct follow *self, bool to_stderr) {
  const struct terminal *terminal = &self->program->terminal;
  return to_stderr ? terminal->err_is_tty : terminal->out_is_tty;
}

static void end_line(struct follow *self, bool to_stderr) {
  if (self->has_colors)
    put_text(self, to_stderr, terminal_color(&self->program->terminal, to_stderr, COLOR_NONE));
  put_text(self, to_stderr, "\n");
  self->open[to_stderr] = 0;
  self->has_colors = false;
}

/* On a terminal a line that goes on is in the way of everything else. */
static void make_way(struct follow *self) {
  for (int to_stderr = 0; to_stderr < 2; to_stderr++)
    if (self->open[to_stderr] != 0 && is_tty(self, to_stderr))
      end_line(self, to_stderr);
}

static const char *timestamp_of(const struct event_view *view, char out[40]) {
  static const char allowed[] = "0123456789-+:.TZ";
  (void)snprintf(out, 40, "%.*s", (int)view->timestamp_length,
                 view->timestamp_length > 0 ? view->timestamp : "");
  out[strspn(out, allowed)] = '\0';
  return out;
}

static void begin_line(struct follow *self, const struct followed *step,
                       const struct event_view *view, bool to_stderr) {
  static const char *const colors[] = {"\x1b[36m", "\x1b[32m", "\x1b[33m",
                                       "\x1b[35m", "\x1b[34m", "\x1b[31m"};
  const struct terminal *terminal = &self->program->terminal;
  bool has_colors = to_stderr ? terminal->err_colors : terminal->out_colors;
  char timestamp[40];
  if (self->options->all) {
    put_text(self, to_stderr, has_colors ? colors[(step->number - 1) % 6] : "");
    put_text(self, to_stderr, step->name);
    put_text(self, to_stderr, "│ ");
    put_text(self, to_stderr, terminal_color(terminal, to_stderr, COLOR_NONE));
  }
  if (self->options->timestamps) {
    put_text(self, to_stderr, timestamp_of(view, timestamp));
    put_text(self, to_stderr, " ");
  }
  if (self->options->all && to_stderr) {
    put_text(self, to_stderr, terminal_color(terminal, to_stderr, COLOR_DIM));
    self->has_colors = true;
  }
}

static void show_line(struct follow *self, const struct followed *step,
                      const struct event_view *view) {
  bool to_stderr = view->kind == STEP_EVENT_STDERR;
  bool goes_on = self->open[to_stderr] == step->number;
  if (is_tty(self, to_stderr) && self->open[!to_stderr] != 0 && is_tty(self, !to_stderr))
    end_line(self, !to_stderr);
  if (to_stderr != self->was_stderr && terminal_flush(&self->program->terminal) != 0)
    self->is_unread = true;
  self->was_stderr = to_stderr;
  if (self->open[to_stderr] != 0 && !goes_on)
    end_line(self, to_stderr);
  if (!goes_on)
    begin_line(self, step, view, to_stderr);
  self->has_colors |= self->options->all && memchr(view->line, '\x1b', view->line_length) != NULL;
  put(self, to_stderr, view->line, view->line_length);
  self->open[to_stderr] = step->number;
  if (!view->partial)
    end_line(self, to_stderr);
}

static void show_json(struct follow *self, const char *json, size_t length) {
  if (terminal_put_json(&self->program->terminal, json, length) != 0)
    self->is_unread = true;
}

static void show_beginning(struct follow *self, const struct followed *step,
                           const struct event_view *view) {
  struct buffer text = {0};
  size_t shown =
      view->line_length < COMMAND_MAX ? view->line_length : utf8_cut(view->line, COMMAND_MAX);
  if (!self->program->terminal.err_is_tty || self->options->past.id != NULL)
    return;
  make_way(self);
  printable_add(&text, view->line, shown);
  terminal_say(&self->program->terminal, COLOR_DIM, "%s %.*s", step->name, (int)text.length,
               text.length > 0 ? text.bytes : "");
  buffer_release(&text);
}

/* --- events ----------------------------------------------------------------------------------- */

struct gap {
  char text[64];
};

/* "… 1,204 lines were trimmed …" */
static struct gap describe_gap(uint64_t lines) {
  struct gap gap;
  (void)snprintf(gap.text, sizeof gap.text, "… %s line%s trimmed …",
                 figure_count((int64_t)lines).text, lines == 1 ? " was" : "s were");
  return gap;
}

/* Lines that were in the stream between what was seen and this event. Where the first that is seen
   is not the step's first, it was asked for so, or another step was looked at. */
static uint64_t missed_lines(const struct follow *self, const struct followed *step, uint64_t seq) {
  const struct history_query *wish = &self->options->past;
  bool wants_whole = wish->id != NULL && !wish->has_lines && wish->since_ms == 0;
  if (step->seq > 0)
    return seq > step->seq ? seq - step->seq - 1 : 0;
  return wants_whole && seq > 2 ? seq - 2 : 0; /* the first is `started` */
}

static void record(struct follow *self, const struct event_view *view, const char *note) {
  for (size_t i = 0; i < self->recording_count && !self->cannot_record; i++)
    if (recording_add(&self->recordings[i], view, note, &self->error) != 0)
      self->cannot_record = true;
}

static void end_step(struct follow *self, struct followed *step, const struct event_view *view) {
  int exit_code = -1;
  bool timed_out = false;
  int64_t now_ms;
  if (!event_read_completed(view, &exit_code, &timed_out))
    return;
  self->outcome = outcome_make(NULL, exit_code, timed_out, false);
  if (exit_code < 0 && !timed_out)
    (void)snprintf(self->outcome.what, sizeof self->outcome.what, "was cancelled, or not started");
  if (step->started_ms != 0 && event_read_time(view, &now_ms))
    self->outcome.seconds = (double)(now_ms - step->started_ms) / 1000;
  if (!self->program->json) {
    make_way(self);
    outcome_say(self->program, step->name, &self->outcome);
  }
  self->is_over = self->options->past.id != NULL;
  forget_step(self, step);
}

static void show_event(struct follow *self, struct followed *step, const struct event_view *view) {
  if (view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR)
    show_line(self, step, view);
  else if (view->kind == STEP_EVENT_STARTED)
    show_beginning(self, step, view);
}

static void on_event(void *owner, const char *entry, const char *json, size_t length,
                     const struct event_view *view) {
  struct follow *self = owner;
  const char *id = self->options->past.id != NULL ? self->past.id : NULL;
  (void)entry;
  if (self->is_over || view->step_id_length >= HISTORY_ID_SIZE ||
      (id != NULL && (view->step_id_length != strlen(id) ||
                      strncasecmp(view->step_id, id, view->step_id_length) != 0)))
    return;
  struct followed *step = find_step(self, view->step_id, view->step_id_length);
  if (step == NULL)
    step = add_step(self, view->step_id, view->step_id_length);
  if (view->seq != 0 && view->seq <= step->seq)
    return;
  uint64_t missed = missed_lines(self, step, view->seq);
  struct gap gap = {{0}};
  if (missed > 0)
    gap = describe_gap(missed);
  step->seq = view->seq;
  if (view->kind == STEP_EVENT_STARTED)
    (void)event_read_time(view, &step->started_ms);
  if (missed > 0 && !self->program->json) {
    make_way(self);
    terminal_say(&self->program->terminal, COLOR_YELLOW, "%s", gap.text);
  }
  if (self->program->json)
    show_json(self, json, length);
  else
    show_event(self, step, view);
  record(self, view, missed > 0 ? gap.text : NULL);
  if (view->kind == STEP_EVENT_COMPLETED)
    end_step(self, step, view);
}

static void on_turn(void *owner) {
  struct follow *self = owner;
  if (terminal_flush(&self->program->terminal) != 0)
    self->is_unread = true;
}

static void on_failed(void *owner, const char *why) {
  struct follow *self = owner;
  free(self->failed);
  self->failed = memory_copy(why, strlen(why));
  self->is_over = true;
}

static const struct event_stream_handler event_stream_handler = {
    .event = on_event, .turn = on_turn, .failed = on_failed};

/* --- signals ---------------------------------------------------------------------------------- */

static const int leaving[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
#define LEAVING_COUNT (sizeof leaving / sizeof *leaving)

/* The shell's prompt is not to stand behind the key. In a signal's handler. */
static void step_off_key(int number) {
  struct termios settings;
  if ((number == SIGINT || number == SIGQUIT) && tcgetattr(STDERR_FILENO, &settings) == 0)
    (void)!write(STDERR_FILENO, "\n", 1);
}

/* Nothing is stopped, and nothing is left to do: it leaves also while nobody reads what it
   shows. */
static void leave(int number) {
  step_off_key(number);
  _exit(128 + number);
}

LOOP_CALLBACK(on_signals, struct follow *self) {
  struct signalfd_siginfo info;
  if (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
    self->signal = (int)info.ssi_signo;
}

LOOP_CALLBACK(on_tick, struct follow *self) {
  loop_timer_start(self->tick, TICK_MS);
}

/* Files that are not whole are removed. What comes while that is done changes nothing. */
static void watch_signals(struct follow *self) {
  sigset_t set;
  (void)sigemptyset(&set);
  for (size_t i = 0; i < LEAVING_COUNT; i++)
    (void)sigaddset(&set, leaving[i]);
  (void)sigprocmask(SIG_BLOCK, &set, NULL);
  for (size_t i = 0; i < LEAVING_COUNT; i++)
    (void)signal(leaving[i], SIG_IGN);
  self->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  self->signals =
      loop_event_new(self->program->base, self->signal_fd, EV_READ | EV_PERSIST, on_signals, self);
  pipeline_stop_on(self->program->redis, &self->signal);
}

/* --- whether all is well ---------------------------------------------------------------------- */

/* What is in neither list has had its last event by then. */
static bool has_vanished(struct follow *self) {
  struct error ignored;
  size_t before;
  bool found;
  if (job_find_step(self->program, self->past.id, &self->place, &before, &found, &ignored) != 0)
    return false;
  if (found)
    self->is_gone = false;
  else if (!self->is_gone)
    self->is_gone = history_newest(self->program, self->gone, &ignored) == 0;
  return self->is_gone && !self->is_over && entry_compare(self->stream.last, self->gone) >= 0;
}

static bool has_agent(struct follow *self, int64_t now_ms) {
  struct job_agent agent;
  struct error ignored;
  if (job_read_agent(self->program, self->program->keys.heartbeat, &agent, &ignored) != 0 ||
      agent.is_alive)
    self->beat_ms = now_ms;
  job_agent_release(&agent);
  return now_ms - self->beat_ms <= AGENT_GONE_MS;
}

/* What is wrong, as an exit code; -1: nothing. */
static int look(struct follow *self) {
  struct program *program = self->program;
  struct error error;
  int64_t now_ms = clock_monotonic_ms();
  if (pipeline_away_ms(self->reader) > PIPELINE_TIMEOUT_MS) {
    pipeline_connection_error(self->reader, &error);
    make_way(self);
    terminal_error(&program->terminal, "redis is gone: %s", error.text);
    return EXIT_CLIENT;
  }
  if (self->options->past.id == NULL || now_ms < self->looked_ms + LOOK_MS ||
      pipeline_away_ms(program->redis) > 0)
    return -1;
  self->looked_ms = now_ms;
  const char *what = NULL;
  if (has_vanished(self))
    what = "has ended, and nothing says how: it was interrupted, cancelled before it ran, or lost";
  else if (!has_agent(self, now_ms) && self->count > 0 && !self->is_over)
    what = "is not answered: the agent is gone";
  if (what == NULL)
    return -1;
  make_way(self);
  terminal_error(&program->terminal, "%s %s", job_shorten(self->past.id).text, what);
  return EXIT_CLIENT;
}

static void show_waiting(struct follow *self) {
  char text[64];
  if (self->options->past.id == NULL || !self->past.is_waiting || self->numbers > 0)
    return;
  (void)snprintf(text, sizeof text, "%s waits", job_shorten(self->past.id).text);
  terminal_status(&self->program->terminal, text);
}

/* --- the end ---------------------------------------------------------------------------------- */

static int record_end(struct follow *self) {
  for (size_t i = 0; i < self->recording_count && !self->cannot_record; i++)
    if (recording_finish(&self->recordings[i], self->outcome.what, &self->error) != 0)
      self->cannot_record = true;
  return self->cannot_record ? -1 : 0;
}

/* A reader that is gone is seen also while nothing is printed. */
static void look_for_reader(struct follow *self) {
  struct pollfd out = {.fd = STDOUT_FILENO};
  if (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0)
    self->is_unread = true;
}

static int wait_for_end(struct follow *self) {
  int code = -1;
  self->beat_ms = self->looked_ms = clock_monotonic_ms();
  while (code < 0 && !self->is_over && !self->cannot_record) {
    show_waiting(self);
    (void)event_base_loop(self->program->base, EVLOOP_ONCE);
    look_for_reader(self);
    if (self->is_unread)
      code = 128 + SIGPIPE;
    else if (self->signal != 0)
      code = 128 + self->signal;
    else if (!self->is_over)
      code = look(self);
  }
  terminal_status(&self->program->terminal, "");
  if (self->signal != 0)
    step_off_key(self->signal);
  return code;
}

static int finish(struct follow *self) {
  struct terminal *terminal = &self->program->terminal;
  make_way(self);
  if (self->failed != NULL) {
    terminal_error(terminal, "cannot read the events: %s", self->failed);
    return EXIT_CLIENT;
  }
  if (self->cannot_record || record_end(self) != 0) {
    terminal_error(terminal, "%s", self->error.text);
    return EXIT_CLIENT;
  }
  return self->outcome.code;
}

/* --- the beginning ---------------------------------------------------------------------------- */

static int begin_recording(struct follow *self, enum recording_format format, const char *path,
                           struct error *error) {
  if (path == NULL)
    return 0;
  const struct recording *other = self->recording_count > 0 ? &self->recordings[0] : NULL;
  return recording_begin(&self->recordings[self->recording_count++], format, path, other,
                         self->program->job, self->past.id, error);
}

static int begin(struct follow *self, struct error *error) {
  const struct follow_options *options = self->options;
  for (size_t i = 0; i < LEAVING_COUNT; i++)
    (void)signal(leaving[i], leave);
  if (history_find(self->program, &options->past, &self->past, error) != 0 ||
      begin_recording(self, RECORDING_PAGE, options->html, error) != 0 ||
      begin_recording(self, RECORDING_CAST, options->cast, error) != 0)
    return -1;
  if (self->recording_count > 0)
    watch_signals(self);
  /* Of what is not shown the last event says what comes next. */
  bool shows_past = strcmp(self->past.after, self->past.newest) != 0;
  if (options->past.id == NULL && !shows_past && self->past.id[0] != '\0')
    add_step(self, self->past.id, strlen(self->past.id))->seq = self->past.seq;
  self->tick = loop_timer_new(self->program->base, on_tick, self);
  loop_timer_start(self->tick, TICK_MS);
  return 0;
}

static int follow_steps(struct program *program, const struct follow_options *options) {
  struct follow *self = memory_zeros(sizeof *self);
  struct error error;
  *self = (struct follow){.program = program, .options = options, .signal_fd = -1};
  int code = EXIT_CLIENT;
  if (begin(self, &error) == 0) {
    self->reader = pipeline_new(program->base, &program->url, "sandbox-follow");
    event_stream_begin(&self->stream, self->reader, program->keys.events, self->past.after,
                       &event_stream_handler, self);
    code = wait_for_end(self);
    event_stream_end(&self->stream);
    pipeline_free(self->reader);
    code = code >= 0 ? code : finish(self);
  } else {
    terminal_error(&program->terminal, "%s", error.text);
  }
  while (self->recording_count > 0)
    recording_release(&self->recordings[--self->recording_count]);
  if (self->tick != NULL)
    event_free(self->tick);
  pipeline_stop_on(program->redis, NULL);
  if (self->signals != NULL) {
    event_free(self->signals);
    close(self->signal_fd);
  }
  free(self->failed);
  free(self);
  return code;
}

/* --- options ---------------------------------------------------------------------------------- */

/* 30s, 5m, 2h, 1d: when that was. */
static bool read_since(const char *text, int64_t *since_ms) {
  static const char units[] = "smhd";
  static const int64_t seconds[] = {1, 60, 3600, 86400};
  char *end;
  unsigned long long number = strtoull(text, &end, 10);
  const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
  if (text[0] < '0' || text[0] > '9' || unit == NULL || end[1] != '\0' || number > 100000000)
    return false;
  *since_ms = clock_unix_ms() - (int64_t)number * seconds[unit - units] * 1000;
  *since_ms = *since_ms > 0 ? *since_ms : 1;
  return true;
}

static bool read_lines(const char *text, uint64_t *lines) {
  char *end;
  *lines = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static bool take_option(struct follow_options *options, int flag) {
  switch (flag) {
  case 'n':
    options->past.has_lines = true;
    return read_lines(optarg, &options->past.lines);
  case 'S':
    return read_since(optarg, &options->past.since_ms);
  case 'A':
    return options->all = true;
  case 'T':
    return options->timestamps = true;
  case 'H':
    options->html = optarg;
    return true;
  case 'C':
    options->cast = optarg;
    return true;
  default:
    return false;
  }
}

static int read_options(struct follow_options *options, int argc, char **argv) {
  static const struct option flags[] = {
      {"since", required_argument, NULL, 'S'}, {"all", no_argument, NULL, 'A'},
      {"timestamps", no_argument, NULL, 'T'},  {"html", required_argument, NULL, 'H'},
      {"cast", required_argument, NULL, 'C'},  {NULL, 0, NULL, 0}};
  optind = 0;
  for (int flag; (flag = getopt_long(argc, argv, "n:", flags, NULL)) != -1;)
    if (!take_option(options, flag))
      return -1;
  if (optind < argc)
    options->past.id = argv[optind++];
  options->past.one_step = !options->all;
  bool records = options->html != NULL || options->cast != NULL;
  bool has_id = options->past.id != NULL;
  return optind == argc && !(has_id && options->past.id[0] == '\0') && !(has_id && options->all) &&
                 (has_id || !records)
             ? 0
             : -1;
}

static int follow(struct program *program, int argc, char **argv) {
  struct follow_options options = {0};
  return read_options(&options, argc, argv) == 0 ? follow_steps(program, &options)
                                                 : program_usage(&follow_command);
}

const struct command follow_command = {
    .name = "follow",
    .usage = "[-n LINES] [--since 30s|5m|2h] [--timestamps] [--all]\n"
             "       sandbox follow ID [-n LINES] [--since 5m] [--timestamps] [--html FILE] "
             "[--cast FILE]",
    .help = "what steps print, live; with an ID also its exit code",
    .run = follow,
    .needs_job = true};
