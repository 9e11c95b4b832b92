#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/login.h"

/* What was overwritten last. Stands before the C library's own, so that a test sees it. */
static const void *erased;
static size_t erased_length;

void explicit_bzero(void *memory, size_t length) {
  erased = memory;
  erased_length = length;
  volatile char *bytes = memory;
  for (size_t i = 0; i < length; i++)
    bytes[i] = 0;
}

static void sends(struct redis_url url, const char *expected) {
  struct login login;
  login_init(&login, &url, "its-name");
  assert_int_equal(login.length, strlen(expected));
  assert_memory_equal(login.text, expected, login.length);
  login_release(&login);
}

#define SETNAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$8\r\nits-name\r\n"

static void it_says_what_the_url_asks_for(void **state) {
  (void)state;
  char user[] = "me";
  char password[] = "se cret\r\n";
  sends((struct redis_url){0}, SETNAME);
  sends((struct redis_url){.password = password},
        "*2\r\n$4\r\nAUTH\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  sends((struct redis_url){.user = user, .password = password},
        "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME);
  sends((struct redis_url){.database = 4294967295},
        SETNAME "*2\r\n$6\r\nSELECT\r\n$10\r\n4294967295\r\n");
  sends((struct redis_url){.user = user, .password = password, .database = 3},
        "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$9\r\nse cret\r\n\r\n" SETNAME
        "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n");
}

static void the_password_is_overwritten(void **state) {
  (void)state;
  char password[] = "secret";
  struct redis_url url = {.password = password};
  struct login login;
  login_init(&login, &url, "its-name");
  const void *text = login.text;
  size_t length = login.length;
  login_release(&login);
  assert_ptr_equal(erased, text);
  assert_int_equal(erased_length, length);
  assert_null(login.text);
  login_release(&login);
  assert_string_equal(password, "secret"); /* the url's own is not the login's */
}

struct answer {
  const char *text; /* an error, or NULL: OK */
  enum login_verdict verdict;
  const char *command;
};

/* A login of three commands, and the answers to them. */
static void hears(const struct answer *answers, int count) {
  char password[] = "secret";
  char ok[] = "OK";
  struct redis_url url = {.password = password, .database = 1};
  struct login login;
  login_init(&login, &url, "its-name");
  for (int i = 0; i < count; i++) {
    char text[128] = "";
    redisReply reply = {.type = REDIS_REPLY_STATUS, .str = ok, .len = 2};
    if (answers[i].text != NULL) {
      strcpy(text, answers[i].text);
      reply = (redisReply){.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
    }
    const char *command = NULL;
    assert_int_equal(login_take(&login, &reply, &command), answers[i].verdict);
    assert_string_equal(command, answers[i].command);
  }
  login_release(&login);
}

static void it_is_done_behind_the_last_answer(void **state) {
  (void)state;
  const struct answer answers[] = {{NULL, LOGIN_GOES_ON, "AUTH"},
                                   {NULL, LOGIN_GOES_ON, "CLIENT SETNAME"},
                                   {NULL, LOGIN_DONE, "SELECT"}};
  hears(answers, 3);
}

static void a_refusal_is_for_good(void **state) {
  (void)state;
  const struct answer wrong[] = {{"WRONGPASS invalid", LOGIN_REFUSED, "AUTH"}};
  const struct answer range[] = {{NULL, LOGIN_GOES_ON, "AUTH"},
                                 {NULL, LOGIN_GOES_ON, "CLIENT SETNAME"},
                                 {"ERR DB index is out of range", LOGIN_REFUSED, "SELECT"}};
  hears(wrong, 1);
  hears(range, 3);
}

static void what_passes_is_for_later(void **state) {
  (void)state;
  const struct answer auth[] = {{"LOADING it is", LOGIN_LATER, "AUTH"}};
  const struct answer name[] = {
      {NULL, LOGIN_GOES_ON, "AUTH"},
      {"ERR max number of clients reached", LOGIN_LATER, "CLIENT SETNAME"}};
  hears(auth, 1);
  hears(name, 2);
}

static void a_name_that_is_refused_is_done_without(void **state) {
  (void)state;
  static const char *const texts[] = {"ERR unknown command", "ERR Client names cannot have spaces",
                                      "NOPERM no permissions to run 'client|setname'"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct answer answers[] = {{NULL, LOGIN_GOES_ON, "AUTH"},
                                     {texts[i], LOGIN_GOES_ON, "CLIENT SETNAME"},
                                     {NULL, LOGIN_DONE, "SELECT"}};
    hears(answers, 3);
  }
}

static void what_is_not_about_the_name_is_a_refusal(void **state) {
  (void)state;
  static const char *const texts[] = {"NOAUTH Authentication required.", "DENIED protected mode"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct answer answers[] = {{NULL, LOGIN_GOES_ON, "AUTH"},
                                     {texts[i], LOGIN_REFUSED, "CLIENT SETNAME"}};
    hears(answers, 2);
  }
}

/* Without a password and a database the name is all there is. */
static void a_refused_name_may_be_the_last_answer(void **state) {
  (void)state;
  char text[] = "ERR unknown command";
  redisReply reply = {.type = REDIS_REPLY_ERROR, .str = text, .len = strlen(text)};
  struct redis_url url = {0};
  struct login login;
  const char *command;
  login_init(&login, &url, "its-name");
  assert_int_equal(login_take(&login, &reply, &command), LOGIN_DONE);
  login_release(&login);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_says_what_the_url_asks_for),
      cmocka_unit_test(the_password_is_overwritten),
      cmocka_unit_test(it_is_done_behind_the_last_answer),
      cmocka_unit_test(a_refusal_is_for_good),
      cmocka_unit_test(what_passes_is_for_later),
      cmocka_unit_test(a_name_that_is_refused_is_done_without),
      cmocka_unit_test(what_is_not_about_the_name_is_a_refusal),
      cmocka_unit_test(a_refused_name_may_be_the_last_answer),
  };
  return cmocka_run_group_tests_name("login", tests, NULL, NULL);
}
