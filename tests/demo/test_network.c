/* SPDX-License-Identifier: Apache-2.0 */
/* test_network.c - gradients against differences of a loss computed here, in double, by plain loops. */
#include "network.h"

#include <kt.h>
#include <math.h>

enum { N_IMAGES = 7, N_INPUTS = 6, N_CLASSES = 3, MOST_UNITS = 8 };

static const size_t sizes[] = {N_INPUTS, 5, 4, N_CLASSES};
static const uint8_t labels[N_IMAGES] = {0, 1, 2, 1, 0, 2, 2};

static network_t *network;
static double images[N_IMAGES][N_INPUTS];
static double weights[MODEL_MAX_ARRAYS][MOST_UNITS * MOST_UNITS];

/* A network, and images and weights of it in double as well. */
static int set_up(void)
{
    model_t model = model_of(sizes, 3);
    rng_t rng = {11};

    if (!KT_OK(network_new(&model, N_IMAGES, &network))) {
        return 0;
    }
    model_init(&model, &rng, network->weights);
    for (size_t a = 0; a < model.n_arrays; a++) {
        for (size_t i = 0; i < model.arrays[a].n_elems; i++) {
            network->weights[a][i] += rng_uniform(&rng, -0.1f, 0.1f); /* biases too */
            weights[a][i] = network->weights[a][i];
        }
    }
    for (size_t i = 0; i < N_IMAGES; i++) {
        for (size_t p = 0; p < N_INPUTS; p++) {
            images[i][p] = rng_uniform(&rng, -1, 1);
        }
    }
    return 1;
}

static void put_images(size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; p < N_INPUTS; p++) {
            network_image(network, i)[p] = (float)images[first + i][p];
        }
    }
}

static double loss_of_image(size_t image)
{
    double values[4][MOST_UNITS] = {{0}};
    double sum = 0;

    memcpy(values[0], images[image], sizeof(images[image]));
    for (size_t l = 0; l < 3; l++) {
        for (size_t o = 0; o < sizes[l + 1]; o++) {
            double x = weights[2 * l + 1][o];

            for (size_t i = 0; i < sizes[l]; i++) {
                x += values[l][i] * weights[2 * l][i * sizes[l + 1] + o];
            }
            values[l + 1][o] = l < 2 && x < 0 ? 0 : x;
        }
    }
    for (size_t c = 0; c < N_CLASSES; c++) {
        sum += exp(values[3][c]);
    }
    return log(sum) - values[3][labels[image]];
}

static double loss_of_all(void)
{
    double loss = 0;

    for (size_t i = 0; i < N_IMAGES; i++) {
        loss += loss_of_image(i);
    }
    return loss;
}

static void the_loss_is_the_sum_of_cross_entropies(void)
{
    if (set_up()) {
        put_images(0, N_IMAGES);
        network_forward(network, N_IMAGES);
        KT_TRUE(fabs(network_backward(network, labels, N_IMAGES) - loss_of_all()) < 1e-5);
        network_free(network);
    }
}

static void gradients_are_the_slopes_of_the_loss(void)
{
    const double h = 1e-6;

    if (!set_up()) {
        return;
    }
    put_images(0, N_IMAGES);
    network_forward(network, N_IMAGES);
    (void)network_backward(network, labels, N_IMAGES);
    for (size_t a = 0; a < network->model.n_arrays; a++) {
        for (size_t i = 0; i < network->model.arrays[a].n_elems; i++) {
            double kept = weights[a][i];

            weights[a][i] = kept + h;
            double above = loss_of_all();
            weights[a][i] = kept - h;
            double below = loss_of_all();
            weights[a][i] = kept;
            double slope = (above - below) / (2 * h);
            double got = network->gradients[a][i];

            KT_TRUE(fabs(got - slope) < 1e-5 * fmax(1, fabs(slope)));
        }
    }
    network_free(network);
}

static void gradients_of_parts_add_up_to_those_of_the_whole(void)
{
    static const size_t begins[] = {0, 1, 4, N_IMAGES};
    static double sums[MODEL_MAX_ARRAYS][MOST_UNITS * MOST_UNITS];

    if (!set_up()) {
        return;
    }
    for (size_t part = 0; part < 3; part++) {
        size_t n = begins[part + 1] - begins[part];

        put_images(begins[part], n);
        network_forward(network, n);
        (void)network_backward(network, labels + begins[part], n);
        for (size_t a = 0; a < network->model.n_arrays; a++) {
            for (size_t i = 0; i < network->model.arrays[a].n_elems; i++) {
                sums[a][i] += network->gradients[a][i];
            }
        }
    }
    put_images(0, N_IMAGES);
    network_forward(network, N_IMAGES);
    (void)network_backward(network, labels, N_IMAGES);
    for (size_t a = 0; a < network->model.n_arrays; a++) {
        for (size_t i = 0; i < network->model.arrays[a].n_elems; i++) {
            KT_TRUE(fabs(sums[a][i] - network->gradients[a][i]) < 2e-6);
        }
    }
    network_free(network);
}

static void the_highest_score_is_predicted_and_the_first_of_equals(void)
{
    if (!set_up()) {
        return;
    }
    memcpy(network->activations[3], (float[]){1, 3, 2, 5, 5, 4, -3, -2, -1}, 9 * sizeof(float));
    KT_INT(network_predicted(network, 0), 1);
    KT_INT(network_predicted(network, 1), 0);
    KT_INT(network_predicted(network, 2), 2);
    network_free(network);
}

static void huge_scores_give_a_finite_loss(void)
{
    if (!set_up()) {
        return;
    }
    memcpy(network->activations[3], (float[]){1e30f, 0, -1e30f}, 3 * sizeof(float));
    KT_REAL(network_backward(network, labels, 1), 0.0); /* label 0: certain, and right */
    network_free(network);
}

static void arrays_are_named_and_shaped_by_their_layer(void)
{
    model_t model = model_of(sizes, 3);

    KT_INT(model.n_arrays, 6);
    KT_STR(model.arrays[0].name, "layer1.weight");
    KT_STR(model.arrays[5].name, "layer3.bias");
    KT_INT(model.arrays[0].ndim, 2);
    KT_INT(model.arrays[0].shape[0], 6);
    KT_INT(model.arrays[0].shape[1], 5);
    KT_INT(model.arrays[5].ndim, 1);
    KT_INT(model.arrays[5].shape[0], 3);
    KT_INT(model_n_elems(&model), 6 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3);
}

static const kt_test_t tests[] = {
    KT_TEST(the_loss_is_the_sum_of_cross_entropies),
    KT_TEST(gradients_are_the_slopes_of_the_loss),
    KT_TEST(gradients_of_parts_add_up_to_those_of_the_whole),
    KT_TEST(the_highest_score_is_predicted_and_the_first_of_equals),
    KT_TEST(huge_scores_give_a_finite_loss),
    KT_TEST(arrays_are_named_and_shaped_by_their_layer),
};

KT_MAIN("demo.network", tests)
