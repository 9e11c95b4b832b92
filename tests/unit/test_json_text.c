#include "wire/json.h"

#include "tests/test.h"

/* Returns an exact copy, for the sanitizer, to be freed. */
static char *exact_copy(const char *bytes, size_t length) {
  char *copy = malloc(length > 0 ? length : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, length);
  return copy;
}

/* Returns a letter for each whole token and each fault of a text that arrives in pieces. */
static const char *tokens_of(const char *bytes, size_t piece) {
  static char shown[200];
  struct json_text text = {0};
  size_t whole = strlen(bytes), count = 0;
  for (size_t length = 0; length < whole;) {
    length = whole - length < piece ? whole : length + piece;
    char *copy = exact_copy(bytes, length);
    text.bytes = copy;
    text.length = length;
    for (enum json_text_state state; (state = json_text_next(&text)) != JSON_TEXT_SHORT;)
      shown[count++] = state == JSON_TEXT_WHOLE ? text.token : "_E?UCHSND"[text.fault];
    free(copy);
  }
  assert_int_equal(text.at, text.is_open || text.token != '\0' ? text.at : whole);
  shown[count] = '\0';
  return shown;
}

TEST(tokens_do_not_depend_on_the_pieces_of_the_text) {
  static const struct {
    const char *text, *tokens;
  } rows[] = {
      {"", ""},
      {" \t\r\n{ } \n", "{}"},
      {"{'a':[1,{'b':'\\u00e4\\\\\xE2\x82\xAC'},true],'c':null}", "{\":[0,{\":\"},a],\":a}"},
      {"[0,-0,10,-1.5,0.25,1e5,1E+5,1.0e-5,-0e0]", "[0,0,0,0,0,0,0,0,0]"},
      {"[01,1.,-,1e,1e+,1-2,1.2.3,-.5]", "[N,N,N,N,N,N,N,N]"},
      {"]}[,:", "]}[,:"},
      {"\xEF\xBB\xBF{", "?{"},
      {"[\x01,x,tru,nulL,f'',+1,\xC3\xA4,\xFF", "[C,?,?,??,?\",?0,?,U"},
      {"['\n\xFF\\x\\u12\\uZ','']", "[CUEHH\",\"]"},
      {"['\\ud83d\\uDE00','\\ud83d','\\uDFFFx','\\ud83d\\ud83d\\ude00','\\uD800\\u12']",
       "[\",S\",S\",S\",SH\"]"},
      {"['\\ud83d\\ude0", "["},
      {"'\\\"\\\\\\/\\b\\f\\n\\r\\t'1 ", "\"0"},
      {"['\xE2\x82", "["},
      {"['\\", "["},
      {"['\\u00e", "["},
      {"[nul", "["},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t piece = 1; piece < 100; piece += i + 1) {
      const char *found = tokens_of(quoted(rows[i].text), piece);
      if (strcmp(found, rows[i].tokens) != 0)
        fail_msg("%s, %zu bytes at a time: %s", rows[i].text, piece, found);
    }
}

TEST(a_value_ends_as_soon_as_it_is_complete) {
  static const struct {
    const char *text;
    size_t extent; /* 0 if it does not end */
  } rows[] = {{"{}", 2},
              {"{} ", 2},
              {"{}{}", 2},
              {" \r\n\t[1]\n", 7},
              {"{'a':'}'}x", 9},
              {"{'a\\'}':[{},{}]}x", 16},
              {"['\\\\']", 6},
              {"[}", 2},
              {"{'\\x\n\xFF':x}y", 10},
              {"[12345]", 7},
              {"42\n43\n", 3},
              {"\n'{\\''\r\n", 6},
              {"'\x01'", 3},
              {"null", 4},
              {" true\n", 5},
              {"false,", 5},
              {"} {}\n", 1},
              {"echo hi", 1},
              {"\xEF\xBB\xBF{}", 5},
              {"", 0},
              {" \n", 0},
              {"{", 0},
              {"[{}", 0},
              {"{'}", 0},
              {"{'\\'}", 0},
              {"42", 0},
              {"[[]", 0},
              {"'x", 0},
              {"nul", 0},
              {"\xEF\xBB", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *bytes = quoted(rows[i].text);
    struct json_text whole = {0}, pieces = {0};
    size_t extent = 0, length = 0;
    assert_int_equal(json_text_ends(&whole, bytes, strlen(bytes), &extent), rows[i].extent > 0);
    if (rows[i].extent > 0)
      assert_int_equal(extent, rows[i].extent);
    while (length < strlen(bytes) && !json_text_ends(&pieces, bytes, length + 1, &extent))
      length++;
    if (length + 1 != rows[i].extent && length != strlen(bytes))
      fail_msg("%s: %zu", bytes, length);
  }
}

static enum json_text_state judge_copy(const char *bytes, size_t length, size_t *wrong) {
  char *copy = exact_copy(bytes, length);
  enum json_text_state judged = json_text_object(copy, length, wrong);
  free(copy);
  return judged;
}

TEST(each_prefix_of_an_object_is_incomplete) {
  const char *bytes = quoted(
      "\xEF\xBB\xBF\n{'a':[1,{'b':'\\u00e4\\\\\xE2\x82\xAC'},true,-1.5e+3],'c':01,'d':[]}\t ");
  size_t wrong, length = strlen(bytes), whole = length - 2;
  for (size_t n = 0; n <= length; n++)
    assert_int_equal(judge_copy(bytes, n, &wrong), n < whole ? JSON_TEXT_SHORT : JSON_TEXT_WHOLE);
}

TEST(a_text_that_begins_no_object_is_broken) {
  static const struct {
    const char *text;
    size_t wrong;
  } rows[] = {{"[", 0},
              {"1", 0},
              {"x", 0},
              {"\xEF\xBC", 0},
              {"{}{", 2},
              {"{} x", 3},
              {"{,", 1},
              {"{'a',", 4},
              {"{'a':]", 5},
              {"{'a':1]", 6},
              {"{'a':1,}", 7},
              {"{'a':[1,]", 8},
              {"{'a':[1}", 7},
              {"{'a':trux", 8},
              {"{'a':'\n", 6},
              {"{'a':'\\x", 7},
              {"{'a':'\\u00g", 10},
              {"{'a':'\xFF", 6},
              {"{'a':'\xC3'", 6}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *bytes = quoted(rows[i].text);
    size_t wrong, length = strlen(bytes);
    assert_int_not_equal(judge_copy(bytes, length - 1, &wrong), JSON_TEXT_BROKEN);
    assert_int_equal(judge_copy(bytes, length, &wrong), JSON_TEXT_BROKEN);
    assert_int_equal(wrong, rows[i].wrong);
  }
}
