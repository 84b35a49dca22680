"""The time that a device believes: of its enrolment, its server, and its fleet's owner."""

from stemma.device.times import LearnedTime

DAY = 86_400_000.0


def test_a_servers_word_counts_for_now_and_not_for_good():
    time = LearnedTime(10 * DAY)
    time.stated(400 * DAY)
    assert time.present_ms >= 400 * DAY
    assert time.permanent_ms < 11 * DAY
    time.stated(11 * DAY)
    assert time.present_ms < 12 * DAY


def test_the_owners_word_counts_for_good_also_where_it_is_earlier_and_once():
    time = LearnedTime(400 * DAY)
    assert time.owner_stated(2, 10 * DAY)
    assert 10 * DAY <= time.permanent_ms < 11 * DAY
    assert not time.owner_stated(2, 400 * DAY)
    assert not time.owner_stated(1, 400 * DAY)
    assert time.owner_stated(3, 20 * DAY)
    assert (time.number, int(time.permanent_ms // DAY)) == (3, 20)
