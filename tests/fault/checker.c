#include "tests/fault/checker.h"
#include "tests/test.h"

/* The exit code of a step whose supervisor was killed: 128 + SIGKILL. */
enum { KILLED_EXIT_CODE = 137 };

/* The errorMessage of results that the agent makes itself. */
static const char interrupted[] = "interrupted: the agent ended while this step was running";
static const char cancelled[] = "cancelled: by a cancel step";
static const char unresponsive[] = "cannot start a process: its supervisor does not respond";
static const char forgotten[] = "lost: the step has run, and redis has lost its result";

/* The most UTF-16 units of output in a result. All output is ASCII here. */
enum { OUTPUT_MAX = 1000000 };

/* What was read about one step. Each event has a place: 0 for `started`, then the lines from 1,
   then `completed`. */
struct seen {
  bool *events; /* by place: it was seen */
  long highest; /* the highest place so far; -1: none */
  long count;
  long doubled;
  long disordered;
  long odd;       /* the number of events whose seq is not their place */
  long odd_place; /* the first of them, and its seq */
  long odd_seq;
  long results;
  bool interrupted;  /* according to the result, as are the next three */
  bool killed;       /* allowed if supervisors are killed; also if none lived to start the step */
  bool cancelled;    /* allowed if the step may be cancelled */
  bool is_said_lost; /* allowed if the server has lost data several times */
};

struct checker {
  const struct work *work;
  struct tally *tally;
  struct seen seen[WORK_STEPS_MAX];
  long answered; /* the number of the step with the last result; -1: none */
};

static long last_place(const struct work_step *step) {
  return step->lines + 1;
}

static long find_step(const struct checker *self, const char *id) {
  for (size_t i = 0; i < self->work->count; i++) {
    if (strcmp(self->work->steps[i].id, id) == 0)
      return (long)i;
  }
  return -1;
}

/* Returns -1 if there should be no such event. */
static long place_of(const struct work_step *step, const struct reader_event *event) {
  if (strcmp(event->kind, "started") == 0)
    return 0;
  if (strcmp(event->kind, "completed") == 0)
    return last_place(step);
  char *end;
  long line = strtol(event->line, &end, 10);
  bool right = strcmp(event->kind, step->stream) == 0 && end != event->line &&
               strcmp(end, step->filler) == 0 && line >= 1 && line <= step->lines;
  return right ? line : -1;
}

static void take_event(void *context, const struct reader_event *event) {
  struct checker *self = context;
  long number = find_step(self, event->step_id);
  long place = number < 0 ? -1 : place_of(&self->work->steps[number], event);
  if (place < 0) {
    tally_find(self->tally, TALLY_WRONG, 1, "no such event was to come: %.40s %.20s %.120s",
               event->step_id, event->kind, event->line);
    return;
  }
  struct seen *seen = &self->seen[number];
  if (seen->events[place])
    seen->doubled++;
  else if (place < seen->highest)
    seen->disordered++;
  seen->events[place] = true;
  seen->count++;
  if (place > seen->highest)
    seen->highest = place;
  bool is_cut_short = self->work->may_be_killed || self->work->steps[number].may_be_cancelled;
  long seq = is_cut_short ? seen->count : place + 1;
  if (event->seq != seq && seen->odd++ == 0) {
    seen->odd_place = place;
    seen->odd_seq = event->seq;
  }
}

/* Returns the output that the result must have, or NULL if none. The caller frees it. */
static char *expected_output(const struct work_step *step) {
  if (step->content != NULL)
    return strdup(step->content);
  if (step->lines == 0 || strcmp(step->stream, "stdout") != 0)
    return NULL;
  size_t size = (size_t)step->lines * (strlen(step->filler) + 22) + 1;
  char *text = malloc(size);
  assert_non_null(text);
  char *end = text;
  for (long line = 1; line <= step->lines; line++)
    end += sprintf(end, "%ld%s\n", line, step->filler);
  if (end - text > OUTPUT_MAX)
    ((char *)memchr(text + OUTPUT_MAX - 1, '\n', (size_t)(end - text) - OUTPUT_MAX + 1))[1] = '\0';
  return text;
}

static void check_result(struct checker *self, long number, const cJSON *result) {
  const struct work_step *step = &self->work->steps[number];
  const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(result, "eventCount");
  const char *output =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, "outputContent"));
  if (!cJSON_IsNumber(code) || code->valuedouble != step->exit_code)
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: exitCode is not %d", number,
               step->exit_code);
  if (!cJSON_IsNumber(count) || count->valuedouble != (double)(last_place(step) + 1))
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: eventCount is not %ld", number,
               last_place(step) + 1);
  char *expected = expected_output(step);
  if ((output == NULL) != (expected == NULL) || (output != NULL && strcmp(output, expected) != 0))
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: outputContent is not what it printed",
               number);
  free(expected);
}

/* The agent died during the step. The result may or may not have the number of events. */
static void check_interrupted(struct checker *self, long number, const cJSON *result) {
  const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(result, "eventCount");
  if (!cJSON_IsNumber(code) || code->valuedouble != -1)
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: interrupted, but exitCode is not -1",
               number);
  bool known = cJSON_IsNumber(count) && count->valuedouble == (double)self->seen[number].count;
  if (!cJSON_IsNull(count) && !known)
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: interrupted, and eventCount is wrong",
               number);
}

/* The step was killed. Its events exist up to that time, and the last one says how it ended. */
static void check_killed(struct checker *self, long number, const cJSON *result) {
  const struct seen *seen = &self->seen[number];
  const cJSON *count = cJSON_GetObjectItemCaseSensitive(result, "eventCount");
  if (!cJSON_IsNumber(count) || count->valuedouble != (double)seen->count)
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: killed, and eventCount is wrong", number);
  if (!seen->events[last_place(&self->work->steps[number])])
    tally_find(self->tally, TALLY_LOST, 1, "step %ld: killed, and never completed", number);
}

static void take_result(void *context, const cJSON *result) {
  struct checker *self = context;
  const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, "stepId"));
  const char *message =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(result, "errorMessage"));
  long number = find_step(self, id);
  if (number < 0) {
    tally_find(self->tally, TALLY_WRONG, 1, "a result of %.60s, which nobody pushed", id);
    return;
  }
  struct seen *seen = &self->seen[number];
  const struct work_step *step = &self->work->steps[number];
  bool is_lost = message != NULL && strcmp(message, forgotten) == 0;
  if (step->went_back && is_lost) {
    seen->is_said_lost = true;
    return;
  }
  if (seen->results++ > 0)
    return;
  seen->cancelled = step->may_be_cancelled && message != NULL && strcmp(message, cancelled) == 0;
  if (seen->cancelled) { /* maybe before its turn came */
    check_interrupted(self, number, result);
    return;
  }
  bool late = number < self->answered;
  if (late && !step->may_vanish && !step->went_back)
    tally_find(self->tally, TALLY_DISORDERED, 1, "step %ld is answered behind step %ld", number,
               self->answered);
  else if (!late)
    self->answered = number;
  seen->interrupted =
      message != NULL && (strcmp(message, interrupted) == 0 || (step->may_vanish && is_lost));
  const cJSON *code = cJSON_GetObjectItemCaseSensitive(result, "exitCode");
  bool is_killed = cJSON_IsNumber(code) && code->valuedouble == KILLED_EXIT_CODE;
  bool has_none = message != NULL && strncmp(message, unresponsive, strlen(unresponsive)) == 0;
  seen->killed = self->work->may_be_killed && (is_killed || has_none);
  if (seen->killed)
    check_killed(self, number, result);
  else if (!seen->interrupted)
    check_result(self, number, result);
  else if (self->work->may_be_interrupted || step->may_vanish)
    check_interrupted(self, number, result);
  else
    tally_find(self->tally, TALLY_WRONG, 1, "step %ld: interrupted by nobody", number);
}

/* Returns true if the step has not run to its end. */
static bool is_cut_short(const struct seen *seen) {
  return seen->interrupted || seen->killed || seen->cancelled;
}

/* Counts missing events. If the step did not run to its end, only gaps count. */
static long count_missing(const struct work_step *step, const struct seen *seen) {
  long missing = 0;
  bool gap_allowed = step->gap_until > 0;
  if (step->went_back || (seen->cancelled && seen->count == 0))
    return 0;
  long end = last_place(step) + 1;
  if (is_cut_short(seen)) {
    end = last_place(step);
    while (end > 1 && !seen->events[end - 1])
      end--;
  }
  for (long place = 0; place < end;) {
    long first = place;
    while (place < end && !seen->events[place])
      place++;
    if (place > first && gap_allowed && place <= step->gap_until)
      gap_allowed = false;
    else
      missing += place - first;
    place++;
  }
  return missing;
}

/* The chunk of a step must exist once and complete; at most once if the step may not have ended. */
static void check_chunk(struct checker *self, long number, const struct work_chunk *chunk) {
  const struct work_step *step = &self->work->steps[number];
  const struct seen *seen = &self->seen[number];
  bool has_ended = seen->results > 0 && !is_cut_short(seen);
  if (chunk->pieces > 1 || chunk->lines > step->chunk_lines)
    tally_find(self->tally, TALLY_DOUBLED, 1, "step %ld: %ld of %ld lines, in %ld places", number,
               chunk->lines, step->chunk_lines, chunk->pieces);
  else if (has_ended && chunk->lines < step->chunk_lines)
    tally_find(self->tally, TALLY_LOST, 1, "step %ld: %ld of %ld lines appended", number,
               chunk->lines, step->chunk_lines);
  if (chunk->is_late && !step->may_vanish && !step->went_back)
    tally_find(self->tally, TALLY_DISORDERED, 1, "step %ld: its chunk is behind a later one",
               number);
}

static void check_chunks(struct checker *self) {
  struct work_chunk chunks[WORK_STEPS_MAX];
  long foreign = work_find_chunks(self->work, chunks);
  tally_find(self->tally, TALLY_WRONG, foreign, "%ld bytes of the chunks are no step's", foreign);
  for (size_t i = 0; i < self->work->count; i++)
    if (self->work->steps[i].chunk_lines > 0)
      check_chunk(self, (long)i, &chunks[i]);
}

static void conclude(struct checker *self, long number, long runs) {
  const struct work_step *step = &self->work->steps[number];
  const struct seen *seen = &self->seen[number];
  struct tally *tally = self->tally;
  if (seen->results == 0 && !seen->is_said_lost && !step->may_vanish)
    tally_find(tally, TALLY_LOST, 1, "step %ld: no result", number);
  if (seen->results > 1)
    tally_find(tally, TALLY_DOUBLED, seen->results - 1, "step %ld: %ld results", number,
               seen->results);
  tally_find(tally, TALLY_LOST, count_missing(step, seen), "step %ld: %ld of %ld events missing",
             number, count_missing(step, seen), last_place(step) + 1);
  tally_find(tally, TALLY_DOUBLED, seen->doubled, "step %ld: %ld events again", number,
             seen->doubled);
  tally_find(tally, TALLY_DISORDERED, seen->disordered, "step %ld: %ld events behind later ones",
             number, seen->disordered);
  if (seen->interrupted && !step->may_vanish && seen->events[last_place(step)])
    tally_find(tally, TALLY_WRONG, 1, "step %ld: interrupted, and completed", number);
  if (seen->odd > 0)
    tally_find(tally, TALLY_WRONG, 1, "step %ld: seq of event %ld is %ld (%ld such)", number,
               seen->odd_place + 1, seen->odd_seq, seen->odd);
  if (step->content != NULL || step->chunk_lines > 0)
    return;
  if (runs > 1)
    tally_find(tally, TALLY_DOUBLED, runs - 1, "step %ld: ran %ld times", number, runs);
  if (runs == 0 && seen->results > 0 && !is_cut_short(seen))
    tally_find(tally, TALLY_WRONG, 1, "step %ld: answered without having run", number);
}

static void check_leftovers(const struct work *work, const struct reader *reader,
                            struct tally *tally) {
  static const char *const lists[] = {"in", "inflight"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    if (reader_length(reader, lists[i]) > 0)
      tally_find(tally, TALLY_WRONG, 1, "%ld left in %s", reader_length(reader, lists[i]),
                 lists[i]);
  }
  if (reader_has(reader, "started"))
    tally_find(tally, TALLY_WRONG, 1, "a step is left as started");
  if (!work->redis_may_be_away && reader_has(reader, "heartbeat"))
    tally_find(tally, TALLY_WRONG, 1, "a heartbeat is left behind");
}

void checker_check(const struct work *work, const struct reader *reader, struct tally *tally) {
  struct checker self = {.work = work, .tally = tally, .answered = -1};
  for (size_t i = 0; i < work->count; i++) {
    self.seen[i].highest = -1;
    self.seen[i].events = calloc((size_t)last_place(&work->steps[i]) + 1, sizeof(bool));
    assert_non_null(self.seen[i].events);
  }
  reader_events(reader, take_event, &self);
  reader_results(reader, take_result, &self);
  long runs[WORK_STEPS_MAX];
  work_count_runs(work, runs);
  for (size_t i = 0; i < work->count; i++) {
    conclude(&self, (long)i, runs[i]);
    free(self.seen[i].events);
  }
  check_chunks(&self);
  check_leftovers(work, reader, tally);
}
