"""Every address of the console."""

from django.urls import URLPattern

from reviews.permissions import page
from reviews.views import (
    acts,
    diff,
    enqueue,
    failures,
    job,
    jobs,
    ledger,
    policies,
    preferences,
    repositories,
    review,
    reviews,
    samples,
)

urlpatterns: list[URLPattern] = [
    page("", jobs.home, name="home"),
    page("jobs/", jobs.index, name="jobs"),
    page("jobs/new/", enqueue.form, name="enqueue"),
    page("jobs/<int:job_id>/", job.detail, name="job"),
    page("jobs/<int:job_id>/diff/", diff.show, name="job_diff"),
    page("jobs/<int:job_id>/cancellation/", acts.cancel, name="job_cancellation"),
    page("jobs/<int:job_id>/again/", acts.again, name="job_again"),
    page("reviews/", reviews.index, name="reviews"),
    page("reviews/mine/", reviews.mine, name="my_decisions"),
    page("reviews/<int:case_id>/", review.show, name="review"),
    page("reviews/<int:case_id>/decision/", review.decide, name="review_decision"),
    page("reviews/<int:case_id>/act/", review.act, name="review_act"),
    page("reviews/<int:case_id>/viewed/", review.viewed, name="review_viewed"),
    page("follow-ups/<int:follow_up_id>/", reviews.follow_up, name="follow_up"),
    page("ledger/", ledger.index, name="ledger"),
    page("repositories/", repositories.index, name="repositories"),
    page("repositories/<int:repository_id>/limits/", repositories.limits, name="repository_limits"),
    page("preferences/", preferences.show, name="preferences"),
    page("policies/", policies.index, name="policies"),
    page("policies/new/", policies.draft, name="policy_draft"),
    page("policies/<int:number>/", policies.detail, name="policy"),
    page("policies/<int:number>/activation/", policies.activate, name="policy_activation"),
    page("policies/<int:old>/<int:new>/", policies.compare, name="policy_compare"),
    page("failures/", failures.index, name="failures"),
    page("samples/", samples.index, name="samples"),
    page("samples/<int:sample_id>/judgement/", samples.judge, name="sample_judgement"),
]
