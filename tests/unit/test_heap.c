#include "agent/files/tree/heap.h"
#include "tests/test.h"

static int by_number(const void *one, const void *other) {
  const unsigned *a = one;
  const unsigned *b = other;
  return *a < *b ? -1 : *a > *b;
}

static void add(struct heap *heap, unsigned number) {
  unsigned *item = malloc(sizeof *item);
  assert_non_null(item);
  *item = number;
  heap_add(heap, item);
}

static unsigned number_at(const struct heap *heap, size_t at) {
  const unsigned *item = heap->items[at];
  return *item;
}

/* The i-th of `count` numbers from 0 to below `values`, in an order that the name says. */
static unsigned upwards(unsigned i, unsigned count, unsigned values) {
  (void)count;
  return i % values;
}

static unsigned downwards(unsigned i, unsigned count, unsigned values) {
  return (count - 1 - i) % values;
}

static unsigned shuffled(unsigned i, unsigned count, unsigned values) {
  return (unsigned)((uint64_t)i * 7919 % count) % values; /* a prime: each comes once */
}

typedef unsigned order(unsigned i, unsigned count, unsigned values);
static order *const orders[] = {upwards, downwards, shuffled};

TEST(the_last_item_is_taken_first) {
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    struct heap heap = {.compare = by_number};
    for (unsigned i = 0; i < 1000; i++)
      add(&heap, orders[o](i, 1000, 1000));
    for (unsigned i = 1000; i-- > 0;) {
      unsigned *last = heap_take_last(&heap);
      assert_int_equal(*last, i);
      free(last);
    }
    assert_int_equal(heap.count, 0);
    heap_release(&heap);
  }
}

TEST(the_first_items_are_kept) {
  for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
    for (unsigned most = 1; most < 70; most++) {
      struct heap heap = {.compare = by_number};
      for (unsigned i = 0; i < 500; i++) {
        add(&heap, orders[o](i, 500, 500));
        if (heap.count > most)
          free(heap_take_last(&heap));
      }
      heap_sort(&heap);
      assert_int_equal(heap.count, most);
      for (unsigned i = 0; i < most; i++)
        assert_int_equal(number_at(&heap, i), i);
      heap_release(&heap);
    }
  }
}

TEST(equal_items_are_all_kept) {
  struct heap heap = {.compare = by_number};
  for (unsigned i = 0; i < 300; i++)
    add(&heap, shuffled(i, 300, 3));
  heap_sort(&heap);
  for (unsigned i = 0; i < 300; i++)
    assert_int_equal(number_at(&heap, i), i / 100);
  heap_release(&heap);
}

TEST(an_empty_heap_is_sorted_and_released) {
  struct heap heap = {.compare = by_number};
  heap_sort(&heap);
  assert_int_equal(heap.count, 0);
  heap_release(&heap);
  add(&heap, 7); /* it may be used again */
  assert_int_equal(number_at(&heap, 0), 7);
  heap_release(&heap);
}
