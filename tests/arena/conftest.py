import pytest
import torch


@pytest.fixture
def threads():
    """Sets torch's threads; in the end they are as before."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
