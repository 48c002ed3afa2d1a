/* SPDX-License-Identifier: Apache-2.0 */
/* mutants.h - backends that are wrong on purpose, each in one way, and what has to notice.
 *
 * Only what a backend can do wrong: arguments, keys, grouping and order are the core's. X(mutation,
 * id of the case that must fail). A backend is registered as "mutant_MUTATION"; NONE is right. */
#ifndef MUTANTS_H
#define MUTANTS_H

#include <kvstore/kvstore.h>

/* A store that keeps weights (refstore.c). */
#define WEIGHTS_MUTATIONS(X)                                                                       \
    X(adds, "push.replaces")                                                                       \
    X(drops_last_value, "push.sums")                                                               \
    X(reverses_list, "push.list_order")                                                            \
    X(sums_float32_in_double, "push.list_order")                                                   \
    X(changes_value, "push.values_unchanged")                                                      \
    X(keeps_pointer, "push.copies")                                                                \
    X(keeps_number_of_values, "push.any_number")                                                   \
    X(keeps_init_pointer, "init.copies")                                                           \
    X(takes_init_as_zero, "init.list")                                                             \
    X(returns_previous, "pull.sees_pushes")                                                        \
    X(empties_on_pull, "pull.changes_nothing")                                                     \
    X(writes_first_out, "pull.all_outs")                                                           \
    X(writes_past_end, "pull.all_outs")                                                            \
    X(converts_nothing, "pull.converts")                                                           \
    X(writes_early, "pushpull.reads_before_writes")                                                \
    X(ignores_out_order, "pushpull.shared_outs")                                                   \
    X(forgets_pushpull, "pushpull.stores")                                                         \
    X(saturates_integers, "dtype.integers_wrap")                                                   \
    X(sums_in_float32, "dtype.wide")                                                               \
    X(accumulates_in_half, "dtype.half_accumulates")                                               \
    X(truncates_half, "dtype.half_rounds")                                                         \
    X(flushes_nan, "dtype.non_finite")                                                             \
    X(flushes_subnormals, "dtype.subnormals")                                                      \
    X(takes_no_bfloat16, "dtype.all_eight")                                                        \
    X(refuses_zero_size, "array.zero_size")                                                        \
    X(forgets_remainder, "array.sizes")                                                            \
    X(stops_at_a_megabyte, "array.large")                                                          \
    X(rotates_list, "array.same_bits")                                                             \
    X(updates_per_value, "updater.sees_sum")                                                       \
    X(updates_a_copy, "updater.sees_sum")                                                          \
    X(returns_sum_for_update, "updater.pushpull")                                                  \
    X(swallows_updater_error, "updater.error")                                                     \
    X(undoes_failed_update, "updater.error")                                                       \
    X(hides_key_of_error, "updater.error")                                                         \
    X(keeps_updating, "updater.removal")                                                           \
    X(gives_updater_the_value, "updater.values_unchanged")                                         \
    X(claims_optimizer, "optimizer.sgd")                                                           \
    X(pretends_to_compress, "capability.no_compression")                                           \
    X(has_wrong_rank, "store.workers")                                                             \
    X(is_dead, "store.alone")                                                                      \
    X(refuses_scalars, "array.scalar")                                                             \
    X(shares_values_of_stores, "create.independent")                                               \
    X(takes_non_finite, "nonfinite.skip")                                                          \
    X(skips_non_finite, "nonfinite.error")                                                         \
    X(keeps_non_finite_sum, "nonfinite.error")                                                     \
    X(hides_key_of_non_finite_round, "nonfinite.error")

/* A store that keeps none. */
#define EXCHANGE_MUTATIONS(X)                                                                      \
    X(gives_first_value, "pushpull.sum")                                                           \
    X(gives_first_out, "broadcast.every_out")                                                      \
    X(forgets_in_place, "pushpull.in_place")                                                       \
    X(wants_one_shape, "pushpull.no_init")                                                         \
    X(broadcasts_once, "broadcast.repeatable")                                                     \
    X(exchanges_early, "pushpull.overlapping")                                                     \
    X(refuses_lists_dryly, "alone.lists_refused")                                                  \
    X(refuses_arrays_dryly, "alone.not_allowed")                                                   \
    X(converts_no_outs, "alone.converts")                                                          \
    X(writes_only_in_place, "alone.sum")                                                           \
    X(pretends_to_push, "capability.no_weights")                                                   \
    X(pretends_to_optimize, "optimizer.not_capable")

/* The same, where it takes two workers to see it. */
#define REDUCE_MUTATIONS(X)                                                                        \
    X(sums_for_average, "allreduce.average")                                                       \
    X(rounds_averages_to_zero, "allreduce.average")                                                \
    X(gives_sum_for_extremes, "allreduce.extremes")                                                \
    X(takes_greatest_for_least, "allreduce.extremes")                                              \
    X(gathers_backwards, "allreduce.gather")                                                       \
    X(gathers_equal_sizes, "allreduce.gather")

/* The kit's store with something taken away (kitstore.c). */
#define KIT_MUTATIONS(X)                                                                           \
    X(pulls_before_it_pushes, "optimizer.pushpull")                                                \
    X(updates_first_of_list, "optimizer.list")                                                     \
    X(writes_into_gradient, "optimizer.values_unchanged")                                          \
    X(loses_momentum, "optimizer.momentum")                                                        \
    X(ignores_wd, "optimizer.sgd")                                                                 \
    X(ignores_rescale, "optimizer.sgd")                                                            \
    X(ignores_clip, "optimizer.clip")                                                              \
    X(keeps_states, "optimizer.second")                                                            \
    X(ignores_attribute, "optimizer.attribute")                                                    \
    X(ignores_schedule, "optimizer.schedule")                                                      \
    X(ignores_multipliers, "optimizer.multipliers")                                                \
    X(takes_any_parameter, "optimizer.bad_parameters")                                             \
    X(takes_any_name, "optimizer.unknown_name")                                                    \
    X(keeps_optimizer, "optimizer.or_updater")                                                     \
    X(saves_no_states, "states.offered")                                                           \
    X(loads_nothing, "states.round_trip")                                                          \
    X(loads_one_key, "states.string_keys")                                                         \
    X(loads_zeros_as_weights, "states.not_weights")                                                \
    X(merges_states, "states.replaces_all")                                                        \
    X(never_dumps, "states.with_optimizer")                                                        \
    X(always_dumps, "states.without_optimizer")                                                    \
    X(saves_position_always, "states.schedule")                                                    \
    X(loads_without_optimizer, "states.needs_optimizer")                                           \
    X(takes_other_states, "states.other_optimizer")                                                \
    X(takes_other_shapes, "states.other_shape")                                                    \
    X(takes_other_keys, "states.other_keys")                                                       \
    X(drops_states_on_error, "states.bad_file")                                                    \
    X(saves_nowhere, "states.unwritable")                                                          \
    X(is_never_lazy, "gradients.lazy")                                                             \
    X(is_always_lazy, "gradients.standard")                                                        \
    X(densifies_gradients, "gradients.always_lazy")                                                \
    X(skips_empty_gradients, "gradients.empty_counts")                                             \
    X(updates_dense_keys_whole, "gradients.lazy_dense_key")                                        \
    X(keeps_no_master, "gradients.half_master")

/* The same as a store in which each push updates by itself. */
#define ASYNC_MUTATIONS(X)                                                                         \
    X(takes_pushes_without_optimizer, "async.needs_optimizer")                                     \
    X(applies_pushes_twice, "async.each_push")

/* The kit's store with compression of its own in front (compressstore.c). */
#define COMPRESSION_MUTATIONS(X)                                                                   \
    X(never_compresses, "compression.two_bit")                                                     \
    X(sends_2bit_above_threshold, "compression.two_bit")                                           \
    X(sends_no_negatives, "compression.two_bit")                                                   \
    X(spares_single_values, "compression.two_bit")                                                 \
    X(scales_1bit, "compression.one_bit")                                                          \
    X(sends_1bit_at_threshold, "compression.one_bit")                                              \
    X(forgets_residual, "compression.residual")                                                    \
    X(subtracts_nothing, "compression.residual")                                                   \
    X(shares_residual_of_keys, "compression.keys")                                                 \
    X(turns_bytes_round, "compression.order")                                                      \
    X(has_another_default_threshold, "compression.default_threshold")                              \
    X(ignores_threshold, "compression.small_threshold")                                            \
    X(reads_six_digits, "compression.small_threshold")                                             \
    X(compares_in_double, "compression.float_threshold")                                           \
    X(compresses_init, "compression.exact")                                                        \
    X(compresses_pulls, "compression.exact")                                                       \
    X(spares_pushpull, "compression.pushpull")                                                     \
    X(compresses_in_place, "compression.values_unchanged")                                         \
    X(compresses_one_block, "compression.large")                                                   \
    X(compresses_sum, "compression.each_value")                                                    \
    X(shares_residual_of_places, "compression.places")                                             \
    X(drops_residuals_of_other_numbers, "compression.number_of_values")                            \
    X(spares_known_keys, "compression.later")                                                      \
    X(gives_updater_exact_sum, "compression.updater")                                              \
    X(gives_optimizer_exact_sum, "compression.optimizer")                                          \
    X(takes_any_type, "compression.parameters")                                                    \
    X(takes_any_threshold, "compression.parameters")                                               \
    X(takes_any_compression_parameter, "compression.parameters")                                   \
    X(sets_before_checking, "compression.parameters")                                              \
    X(takes_other_dtypes, "compression.dtypes")                                                    \
    X(takes_row_sparse_values, "compression.row_sparse")                                           \
    X(lets_non_finite_pass, "compression.non_finite")                                              \
    X(keeps_non_finite, "compression.non_finite")                                                  \
    X(hides_key_of_non_finite, "compression.non_finite")                                           \
    X(sends_until_non_finite, "compression.non_finite_value")

/* The same, where each push updates by itself. */
#define ASYNC_COMPRESSION_MUTATIONS(X) X(applies_compressed_pushes_twice, "async.compressed")

/* A store of row-sparse keys (rowstore.c). */
#define ROWS_MUTATIONS(X)                                                                          \
    X(forgets_rows_of_init, "sparse.init")                                                         \
    X(refuses_no_rows, "sparse.init_nothing")                                                      \
    X(inits_last_of_repeated, "sparse.init_repeated")                                              \
    X(borrows_initial_rows, "sparse.init_copies")                                                  \
    X(takes_rows_as_sorted, "sparse.unsorted")                                                     \
    X(keeps_last_of_repeated, "sparse.repeated")                                                   \
    X(keeps_first_values_rows, "sparse.unites")                                                    \
    X(leaves_rows_not_pushed, "sparse.replaces")                                                   \
    X(ignores_empty_push, "sparse.empty_push")                                                     \
    X(sorts_callers_ids, "sparse.values_unchanged")                                                \
    X(borrows_rows, "sparse.copies")                                                               \
    X(sums_rows_backwards, "sparse.list_order")                                                    \
    X(keeps_rows_of_four_bytes, "sparse.dtypes")                                                   \
    X(sums_rows_in_half, "sparse.half_accumulates")                                                \
    X(flushes_nan_of_rows, "sparse.non_finite")                                                    \
    X(stops_after_64_rows, "sparse.sizes")                                                         \
    X(stops_at_a_page, "sparse.large")                                                             \
    X(takes_second_dimension_as_row, "sparse.dimensions")                                          \
    X(adds_to_dense_key, "sparse.dense_key")                                                       \
    X(forgets_to_sort, "rows.sorted")                                                              \
    X(gives_rows_twice, "rows.unique")                                                             \
    X(leaves_out_absent_rows, "rows.absent")                                                       \
    X(reads_first_dimension, "rows.any_ids")                                                       \
    X(leaves_no_rows_alone, "rows.no_ids")                                                         \
    X(gives_rows_to_first_out, "rows.several_outs")                                                \
    X(uses_first_ids, "rows.own_ids")                                                              \
    X(converts_no_rows, "rows.converts")                                                           \
    X(writes_before_reading_ids, "rows.shared_ids")                                                \
    X(ignores_room, "rows.room")                                                                   \
    X(pulls_rows_it_has, "rows.pull_dense")                                                        \
    X(gives_all_rows, "rows.keep_rows")                                                            \
    X(drops_zero_rows, "rows.keep_rows")                                                           \
    X(updates_for_each_value, "gradients.updater_rows")                                            \
    X(gives_dense_gradient, "gradients.updater_rows")                                              \
    X(densifies_for_dense_key, "gradients.updater_dense_key")                                      \
    X(skips_empty_update, "gradients.updater_empty")                                               \
    X(forgets_rows_beside, "gradients.updater_beside")

/* More cases that one of them must fail: X(mutation, id, kind of store). */
#define OTHER_CASES(X)                                                                             \
    X(drops_last_value, "lists.repeated_key", weights)                                             \
    X(drops_last_value, "lists.repeated_key_order", weights)                                       \
    X(drops_last_value, "lists.keys_by_devices", weights)                                          \
    X(drops_last_value, "push.mixed_devices", weights)                                             \
    X(drops_last_value, "threads.same_key", weights)                                               \
    X(changes_value, "push.same_array_twice", weights)                                             \
    X(writes_first_out, "lists.repeated_key_pull", weights)                                        \
    X(writes_first_out, "broadcast.into_value", weights)                                           \
    X(writes_first_out, "pushpull.out_is_value", weights)                                          \
    X(keeps_init_pointer, "broadcast.swapped", weights)                                            \
    X(keeps_init_pointer, "broadcast.is_init", weights)                                            \
    X(converts_nothing, "pushpull.converts", weights)                                              \
    X(converts_nothing, "broadcast.converts", weights)                                             \
    X(refuses_zero_size, "array.zero_size_in_list", weights)                                       \
    X(takes_init_as_zero, "delete.forgets", weights)                                               \
    X(takes_init_as_zero, "reset.value", weights)                                                  \
    X(returns_previous, "delete.after_pushes", weights)                                            \
    X(returns_previous, "event.wait", weights)                                                     \
    X(returns_previous, "event.order", weights)                                                    \
    X(returns_previous, "event.sequence", weights)                                                 \
    X(returns_previous, "store.wait_all", weights)                                                 \
    X(returns_previous, "array.byte_offset", weights)                                              \
    X(forgets_remainder, "threads.whole_values", weights)                                          \
    X(updates_per_value, "updater.repeated_key", weights)                                          \
    X(swallows_updater_error, "updater.error_in_list", weights)                                    \
    X(swallows_updater_error, "event.untold_error", weights)                                       \
    X(hides_key_of_error, "event.error", weights)                                                  \
    X(hides_key_of_error, "updater.error_string_key", weights)                                     \
    X(broadcasts_once, "alone.broadcast", exchange)                                                \
    X(wants_one_shape, "alone.dtypes", exchange)                                                   \
    X(gives_first_value, "dtype.sums", exchange)                                                   \
    X(ignores_wd, "gradients.dense_form", kit)                                                     \
    X(is_never_lazy, "gradients.momentum", kit)                                                    \
    X(is_always_lazy, "gradients.same_as_dense", kit)                                              \
    X(loads_nothing, "states.another_store", kit)                                                  \
    X(loads_nothing, "states.pushed_before", kit)                                                  \
    X(pulls_before_it_pushes, "async.own_pushes", async)                                           \
    X(loses_momentum, "async.one_at_a_time", async)                                                \
    X(ignores_attribute, "async.attribute", async)                                                 \
    X(forgets_residual, "async.compressed", async_compress)                                        \
    X(spares_known_keys, "compression.list", compress)                                             \
    X(keeps_first_values_rows, "sparse.list", rows)                                                \
    X(keeps_first_values_rows, "sparse.same_key_twice", rows)                                      \
    X(forgets_rows_of_init, "sparse.mixed", rows)                                                  \
    X(forgets_rows_of_init, "sparse.range", rows)                                                  \
    X(forgets_rows_of_init, "rows.broadcast", rows)                                                \
    X(gives_rows_twice, "rows.list", rows)                                                         \
    X(gives_rows_twice, "rows.counts", rows)                                                       \
    X(leaves_rows_not_pushed, "rows.pushpull", rows)                                               \
    X(leaves_rows_not_pushed, "rows.pushpull_in_place", rows)                                      \
    X(refuses_no_rows, "rows.some_push", rows)

typedef enum mutation {
    NONE,
#define MUTATION_ENUM(name, id) M_##name,
    WEIGHTS_MUTATIONS(MUTATION_ENUM) EXCHANGE_MUTATIONS(MUTATION_ENUM)
        REDUCE_MUTATIONS(MUTATION_ENUM) KIT_MUTATIONS(MUTATION_ENUM) ASYNC_MUTATIONS(MUTATION_ENUM)
            COMPRESSION_MUTATIONS(MUTATION_ENUM) ASYNC_COMPRESSION_MUTATIONS(MUTATION_ENUM)
                ROWS_MUTATIONS(MUTATION_ENUM)
#undef MUTATION_ENUM
                    N_MUTATIONS
} mutation_t;

extern const char *const mutation_names[N_MUTATIONS]; /* NONE: "" */

/* Register a backend as `name`, which a store asks for its mutation: the part behind "mutant_", up to "__" if
 * that is in it, or else NONE. */
kvs_status_t register_weights(const char *name);
kvs_status_t register_exchange(const char *name);
kvs_status_t register_rows(const char *name);
kvs_status_t register_kit(const char *name);
kvs_status_t register_async(const char *name);
kvs_status_t register_compress(const char *name);
kvs_status_t register_async_compress(const char *name);
/* From the name a store was created by. */
mutation_t mutation_of(const char *type);

#endif
