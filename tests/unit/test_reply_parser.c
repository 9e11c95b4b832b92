#include <assert.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "tests/test.h"

/* Large enough for the pieces that are fed here. */
enum { LARGEST = 80000 };

static size_t largest(void) {
  return LARGEST;
}

static size_t least(void) {
  return REPLY_PARSER_BEGINNING;
}

/* The sizes of the pieces in which the bytes arrive. */
static const size_t pieces[] = {1, 7, 4096, 65536, 1 << 20};
enum { PIECES = sizeof pieces / sizeof *pieces };

struct trial {
  struct reply_parser parser;
  char *bytes; /* the input of the parser */
  size_t length;
  char transcript[4096]; /* each reply, and whether it was too large */
  int broken;
};

static int set_up(void **state) {
  static struct trial trial;
  trial = (struct trial){0};
  reply_parser_init(&trial.parser, largest);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  reply_parser_release(&trial->parser);
  free(trial->bytes);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void add(struct trial *trial, const char *bytes, size_t length) {
  if (length == 0)
    return;
  trial->bytes = realloc(trial->bytes, trial->length + length);
  assert_non_null(trial->bytes);
  memcpy(trial->bytes + trial->length, bytes, length);
  trial->length += length;
}

static void add_text(struct trial *trial, const char *text) {
  add(trial, text, strlen(text));
}

/* Each byte depends on its position, so that a beginning differs from any other part. */
static char *long_string(size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  for (size_t at = 0; at < length; at++)
    text[at] = (char)('0' + (at ^ at / 64 ^ at / 4096) % 64);
  text[length] = '\0';
  return text;
}

static void add_string(struct trial *trial, size_t length) {
  char head[32];
  (void)snprintf(head, sizeof head, "$%zu\r\n", length);
  add_text(trial, head);
  char *text = long_string(length);
  add(trial, text, length);
  free(text);
  add_text(trial, "\r\n");
}

static void record(struct trial *trial, const char *text) {
  assert_true(strlen(trial->transcript) + strlen(text) < sizeof trial->transcript);
  strcat(trial->transcript, text);
}

static void show(struct trial *trial, const struct reply *reply) {
  char text[64];
  if (reply == NULL) {
    record(trial, "null ");
    return;
  }
  if (reply->type == REPLY_ARRAY) {
    record(trial, "[");
    for (size_t i = 0; i < reply->elements; i++)
      show(trial, reply->element[i]);
    record(trial, "]");
    return;
  }
  if (reply->type == REPLY_INTEGER)
    (void)snprintf(text, sizeof text, ":%lld", reply->integer);
  else if (reply->type == REPLY_NIL)
    (void)snprintf(text, sizeof text, "nil");
  else if (reply->len > 32)
    (void)snprintf(text, sizeof text, "<%zu bytes>", reply->len);
  else
    (void)snprintf(text, sizeof text, "%s%s", reply->type == REPLY_ERROR ? "-" : "", reply->str);
  record(trial, text);
  record(trial, " ");
}

/* Parses these bytes, or up to a protocol error. */
static void take(struct trial *trial, const char *at, size_t length) {
  const struct reply *reply;
  const char *end = at + length;
  while ((reply = reply_parser_next(&trial->parser, &at, end)) != NULL) {
    if (reply->is_truncated) {
      assert_int_equal(reply->type, REPLY_STRING);
      assert_true(reply->len <= REPLY_PARSER_BEGINNING);
      char *text = long_string(REPLY_PARSER_BEGINNING);
      assert_memory_equal(reply->str, text, reply->len);
      free(text);
      record(trial, "too large: ");
    }
    show(trial, reply);
  }
  if (trial->parser.error[0] != '\0')
    trial->broken++;
  else
    assert_ptr_equal(at, end);
}

static void feed(struct trial *trial, size_t piece) {
  trial->transcript[0] = '\0';
  for (size_t at = 0; at < trial->length; at += piece) {
    size_t left = trial->length - at;
    take(trial, trial->bytes + at, left < piece ? left : piece);
  }
}

/* Expects these replies for each way to split the bytes. */
static void expect(struct trial *trial, const char *transcript) {
  for (size_t i = 0; i < PIECES; i++) {
    feed(trial, pieces[i]);
    assert_string_equal(trial->transcript, transcript);
    assert_int_equal(trial->broken, 0);
  }
}

/* The bytes of a row; `{80000}` stands for a string of this length. */
static void add_row(struct trial *trial, const char *row) {
  for (const char *open; (open = strchr(row, '{')) != NULL; row = strchr(open, '}') + 1) {
    add(trial, row, (size_t)(open - row));
    add_string(trial, strtoul(open + 1, NULL, 10));
  }
  add_text(trial, row);
}

/* If a string in a reply is too large, the rest of the reply is discarded too. */
TRIAL_TEST(replies_are_parsed_from_pieces_of_any_size) {
  static const struct {
    const char *name, *bytes, *transcript;
  } rows[] = {
      {"every kind", "+OK\r\n-ERR no\r\n:-42\r\n$3\r\nabc\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n",
       "OK -ERR no :-42 abc  nil nil []"},
      {"an array in an array", "*3\r\n$3\r\nkey\r\n*2\r\n:1\r\n+in\r\n$2\r\n\r\n\r\n+end\r\n",
       "[key [:1 in ]\r\n ]end "},
      {"the largest string is a reply", "{80000}*2\r\n+key\r\n{80000}",
       "<80000 bytes> [key <80000 bytes> ]"},
      {"one byte more is too large", "+before\r\n{80001}+behind\r\n",
       "before too large: <4096 bytes> behind "},
      {"in an array it replaces the whole reply",
       "*2\r\n$3\r\nkey\r\n{80001}*2\r\n:1\r\n*2\r\n:2\r\n{240000}*1\r\n$4\r\nlast\r\n",
       "too large: <4096 bytes> too large: <4096 bytes> [last ]"},
      {"it may be anywhere in its reply, and another one as well",
       "*4\r\n*0\r\n*1\r\n:1\r\n*3\r\n{80001}$-1\r\n*-1\r\n+tail\r\n*2\r\n{80001}{80001}"
       "$4\r\n+\r\n-\r\n+after\r\n",
       "too large: <4096 bytes> too large: <4096 bytes> +\r\n- after "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s\n", rows[i].name);
    trial->length = 0;
    add_row(trial, rows[i].bytes);
    expect(trial, rows[i].transcript);
  }
}

static unsigned below(unsigned *seed, unsigned limit) {
  *seed = *seed * 1103515245U + 12345U;
  return (*seed >> 16) % limit;
}

/* Adds a random item to what is fed and to what is expected; true when it has a large string. */
static bool add_item(struct trial *trial, unsigned *seed, int depth, char *expected) {
  char text[64];
  bool too_large = false;
  char *at = expected + strlen(expected);
  size_t length = below(seed, 2) == 0 ? below(seed, 60) : 4080 + below(seed, 30);
  size_t count = below(seed, 4);
  switch (below(seed, depth < 4 ? 7 : 5)) {
  case 0:
    add_text(trial, "+status\r\n");
    strcat(at, "status ");
    return false;
  case 1:
    add_text(trial, "-ERR no\r\n");
    strcat(at, "-ERR no ");
    return false;
  case 2:
    add_text(trial, below(seed, 2) == 0 ? "$-1\r\n" : "*-1\r\n");
    strcat(at, "nil ");
    return false;
  case 3:
  case 4: {
    char *string = long_string(length);
    add_string(trial, length);
    if (length > 32)
      (void)sprintf(at, "<%zu bytes> ", length);
    else
      (void)sprintf(at, "%s ", string);
    free(string);
    return length > REPLY_PARSER_BEGINNING;
  }
  default:
    (void)sprintf(text, "*%zu\r\n", count);
    add_text(trial, text);
    strcat(at, "[");
    for (size_t i = 0; i < count; i++)
      too_large |= add_item(trial, seed, depth + 1, expected);
    strcat(at, "]");
    return too_large;
  }
}

TRIAL_TEST(random_replies_are_parsed_from_pieces_of_any_size) {
  reply_parser_release(&trial->parser);
  reply_parser_init(&trial->parser, least);
  for (unsigned seed = 0, round = 0; round < 300; round++) {
    char expected[4096] = "";
    trial->length = 0;
    for (int replies = 0; replies < 4; replies++) {
      char *at = expected + strlen(expected);
      if (add_item(trial, &seed, 0, expected))
        strcpy(at, "too large: <4096 bytes> ");
    }
    for (size_t i = 0; i < 4; i++) {
      feed(trial, 1 + below(&seed, (unsigned)trial->length + 10));
      assert_string_equal(trial->transcript, expected);
    }
  }
}

TRIAL_TEST(a_protocol_error_is_final) {
  static const char *const texts[] = {"HTTP/1.1 400 Bad Request\r\n",
                                      "$-2\r\n",
                                      "$1x\r\n",
                                      "*2\r\n+one\r\n?\r\n",
                                      "$99999999999999999999999\r\n",
                                      "$9999999999999999999\r\n",
                                      "$00000080001\r\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    trial->transcript[0] = '\0';
    trial->broken = 0;
    take(trial, "+good\r\n", 7);
    take(trial, texts[i], strlen(texts[i]));
    assert_string_equal(trial->transcript, "good ");
    assert_int_equal(trial->broken, 1);
    assert_true(strlen(trial->parser.error) > 0);
    take(trial, "+good\r\n", 7);
    assert_int_equal(trial->broken, 2);
    reply_parser_release(&trial->parser);
    reply_parser_init(&trial->parser, largest);
  }
}

/* For each way to split the bytes, expects these replies and then a protocol error with this
   reason. */
static void expect_refusal(struct trial *trial, const char *transcript, const char *why) {
  for (size_t i = 0; i < PIECES; i++) {
    reply_parser_release(&trial->parser);
    reply_parser_init(&trial->parser, largest);
    trial->broken = 0;
    feed(trial, pieces[i]);
    assert_string_equal(trial->transcript, transcript);
    assert_true(trial->broken > 0);
    assert_non_null(strstr(trial->parser.error, why));
  }
}

TRIAL_TEST(the_nesting_of_a_reply_is_limited) {
  add_text(trial, "*2\r\n*1\r\n*1\r\n*1\r\n*2\r\n:1\r\n*0\r\n*-1\r\n");
  expect(trial, "[[[[[:1 []]]]]nil ]");
  trial->length = 0;
  add_text(trial, "+one\r\n*2\r\n+two\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
  expect_refusal(trial, "one ", "nested deeper");
}

TRIAL_TEST(a_deeply_nested_reply_is_rejected_and_freed) {
  enum { DEPTH = 260000 };
  char *bytes = malloc((size_t)4 * DEPTH);
  assert_non_null(bytes);
  for (size_t i = 0; i < DEPTH; i++)
    memcpy(bytes + 4 * i, "*1\r\n", 4);
  add(trial, bytes, (size_t)4 * DEPTH);
  free(bytes);
  for (int whole = 0; whole < 2; whole++) {
    if (whole)
      add_text(trial, ":1\r\n");
    take(trial, trial->bytes, trial->length);
    assert_int_equal(trial->broken, 1 + whole);
    reply_parser_release(&trial->parser);
    reply_parser_init(&trial->parser, largest);
  }
}

TRIAL_TEST(the_number_of_items_of_a_reply_is_limited) {
  static_assert(REPLY_PARSER_ITEMS_MAX == 16384, "as below, with the reply itself");
  add_text(trial, "+one\r\n*2\r\n:1\r\n*16382\r\n");
  for (size_t i = 0; i < 16382; i++)
    add_text(trial, i % 2 == 0 ? "+two\r\n" : "$3\r\ntwo\r\n");
  add_text(trial, "+three\r\n");
  expect(trial, "one too large:  three ");
}

TRIAL_TEST(a_reply_of_resp3_is_rejected) {
  static const char *const texts[] = {"_\r\n",    "#t\r\n",    ",1.5\r\n",
                                      "(12\r\n",  "=3\r\ntxt", "%1\r\n+a\r\n:1",
                                      "~1\r\n:1", ">1\r\n:1",  "*1\r\n_\r\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    trial->length = 0;
    add_text(trial, "+one\r\n");
    add_text(trial, texts[i]);
    expect_refusal(trial, "one ", "RESP3");
  }
}
