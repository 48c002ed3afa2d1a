/* SPDX-License-Identifier: Apache-2.0 */
/* test_pictures.c - what is written is XML to a parser that isn't ours (Python's, where there is one),
 * and holds what it should show. */
#include "chart.h"
#include "gallery.h"
#include "svg.h"

#include "tiny_set.h"

#include <kt.h>
#include <math.h>
#include <stdlib.h>

static char path[700];

static void new_path(void)
{
    snprintf(path, sizeof(path), "%s/picture.svg", kt_temp_dir());
}

/* The picture's text, to be freed. */
static char *read_picture(void)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    KT_TRUE(file != NULL && text != NULL);
    if (file != NULL && text != NULL) {
        KT_TRUE(fread(text, 1, (1 << 20) - 1, file) > 0);
    }
    if (file != NULL) {
        fclose(file);
    }
    return text;
}

static int n_places(const char *text, const char *part)
{
    int n = 0;

    for (; (text = strstr(text, part)) != NULL; text++) {
        n++;
    }
    return n;
}

static void check_is_xml(void)
{
    char command[1024];

    if (system("command -v python3 >/dev/null") != 0) {
        printf("\n  no python3: not parsed ");
        return;
    }
    snprintf(command, sizeof(command),
             "python3 -c 'import sys, xml.etree.ElementTree as t; "
             "sys.exit(t.parse(sys.argv[1]).getroot().tag != \"{http://www.w3.org/2000/svg}svg\")' "
             "'%s'",
             path);
    KT_INT(system(command), 0);
}

static void text_is_escaped(void)
{
    svg_t svg;

    new_path();
    if (KT_OK(svg_open(path, 10, 10, &svg))) {
        svg_text(&svg, 1, 2, 3, SVG_END, "black", "a < b && %d > %s", 5, "\"c\"");
        KT_OK(svg_close(&svg));
        char *text = read_picture();

        KT_HAS(text, "text-anchor=\"end\" fill=\"black\">a &lt; b &amp;&amp; 5 > \"c\"</text>");
        free(text);
        check_is_xml();
    }
}

/* Two rows of three: black black white, grey grey grey. */
static void a_grey_image_is_made_of_runs_by_shade(void)
{
    static const uint8_t pixels[] = {0, 0, 255, 136, 137, 138};
    svg_t svg;

    new_path();
    if (KT_OK(svg_open(path, 10, 10, &svg))) {
        svg_grey_image(&svg, 1, 2, 2, pixels, 2, 3);
        KT_OK(svg_close(&svg));
        char *text = read_picture();

        KT_HAS(text, "<path fill=\"#000000\" d=\"M0 0h2v1h-2z\"/>");
        KT_HAS(text, "<path fill=\"#ffffff\" d=\"M2 0h1v1h-1z\"/>");
        KT_HAS(text, "<path fill=\"#888888\" d=\"M0 1h3v1h-3z\"/>");
        KT_INT(n_places(text, "<path"), 3);
        free(text);
        check_is_xml();
    }
}

static void wrong_predictions_get_a_red_frame_and_the_true_class(void)
{
    dataset_t set = tiny_set(25, 1);
    uint8_t predicted[25];

    memcpy(predicted, set.labels, sizeof(predicted));
    for (size_t i = 3; i < 6; i++) {
        predicted[i] = (uint8_t)((predicted[i] + 1) % DATA_N_CLASSES);
    }
    new_path();
    if (KT_OK(gallery_write(path, &set, predicted))) {
        char part[64];
        char *text = read_picture();

        KT_INT(n_places(text, "stroke=\"#d01010\""), 3);
        KT_INT(n_places(text, "translate("), 25);
        KT_HAS(text, "The first 25 test images and what they are taken for; 3 wrong");
        snprintf(part, sizeof(part), ">not %s<", data_class_names[set.labels[3]]);
        KT_HAS(text, part);
        free(text);
        check_is_xml();
    }
    dataset_release(&set);
}

static void a_chart_shows_losses_and_accuracies(void)
{
    double losses[1000], accuracies[] = {0.5, 0.75, 0.8};

    for (int i = 0; i < 1000; i++) {
        losses[i] = 2.0 / (1 + i);
    }
    new_path();
    if (KT_OK(chart_write(path, losses, 1000, accuracies, 3))) {
        char *text = read_picture();

        KT_HAS(text, ">training loss</text>");
        KT_HAS(text, ">test accuracy after each epoch, in %</text>");
        KT_INT(n_places(text, "width=\"4.0\" height=\"4.0\""), 3);
        free(text);
        check_is_xml();
    }
}

static void one_epoch_of_one_step_makes_a_chart(void)
{
    new_path();
    KT_OK(chart_write(path, (double[]){0}, 1, (double[]){1}, 1));
    check_is_xml();
}

static void losses_that_are_no_numbers_leave_the_chart_readable(void)
{
    const double losses[] = {1, 2, INFINITY, NAN, 3};

    new_path();
    if (KT_OK(chart_write(path, losses, 5, (double[]){0.1}, 1))) {
        char *text = read_picture();

        KT_INT(n_places(text, "nan") + n_places(text, "inf"), 0);
        free(text);
        check_is_xml();
    }
}

static void a_place_that_cannot_be_written_is_named(void)
{
    dataset_t set = tiny_set(1, 1);

    KT_FAIL(chart_write("/nowhere/x.svg", (double[]){0}, 1, (double[]){0}, 1), KVS_ERR_IO,
            "/nowhere/x.svg: cannot be written: No such file");
    KT_FAIL(gallery_write("/dev/full", &set, set.labels), KVS_ERR_IO,
            "/dev/full: cannot be written: No space");
    dataset_release(&set);
}

static const kt_test_t tests[] = {
    KT_TEST(text_is_escaped),
    KT_TEST(a_grey_image_is_made_of_runs_by_shade),
    KT_TEST(wrong_predictions_get_a_red_frame_and_the_true_class),
    KT_TEST(a_chart_shows_losses_and_accuracies),
    KT_TEST(one_epoch_of_one_step_makes_a_chart),
    KT_TEST(losses_that_are_no_numbers_leave_the_chart_readable),
    KT_TEST(a_place_that_cannot_be_written_is_named),
};

KT_MAIN("demo.pictures", tests)
