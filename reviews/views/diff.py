"""A job's diff, file by file."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from jobs.models import Job
from reviews import diffs
from reviews.permissions import require_contents


@require_safe
def show(request: HttpRequest, job_id: int) -> HttpResponse:
    """The newest snapshot, or the one named in the address."""
    job = get_object_or_404(Job.objects.select_related("repository"), pk=job_id)
    require_contents(request, job.repository)
    snapshots = diffs.snapshots(job)
    chosen = request.GET.get("snapshot") or next(iter(snapshots), "")
    if chosen and chosen not in snapshots:
        raise Http404
    found = diffs.difference(job, snapshots[chosen], chosen) if chosen else None
    return render(request, "diff.html", {"job": job, "snapshots": list(snapshots), "chosen": chosen, "found": found})
