"""Every address of the console."""

from django.urls import URLPattern

from reviews.permissions import page
from reviews.views import acts, diff, enqueue, failures, job, jobs, policies, samples

urlpatterns: list[URLPattern] = [
    page("", jobs.home, name="home"),
    page("jobs/", jobs.index, name="jobs"),
    page("jobs/new/", enqueue.form, name="enqueue"),
    page("jobs/<int:job_id>/", job.detail, name="job"),
    page("jobs/<int:job_id>/diff/", diff.show, name="job_diff"),
    page("jobs/<int:job_id>/cancellation/", acts.cancel, name="job_cancellation"),
    page("jobs/<int:job_id>/again/", acts.again, name="job_again"),
    page("policies/", policies.index, name="policies"),
    page("policies/new/", policies.draft, name="policy_draft"),
    page("policies/<int:number>/", policies.detail, name="policy"),
    page("policies/<int:number>/activation/", policies.activate, name="policy_activation"),
    page("policies/<int:old>/<int:new>/", policies.compare, name="policy_compare"),
    page("failures/", failures.index, name="failures"),
    page("samples/", samples.index, name="samples"),
    page("samples/<int:sample_id>/judgement/", samples.judge, name="sample_judgement"),
]
